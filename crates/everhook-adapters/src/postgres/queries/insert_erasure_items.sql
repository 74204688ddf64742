-- Adds events to the list of an operation that erases; leaves out those that are on it.
-- Index: the primary key. Lock: the operation's row, taken by the caller.
INSERT INTO erasure_items (operation_id, event_id) SELECT $1, e FROM unnest($2::uuid[]) AS e ON CONFLICT DO NOTHING;
