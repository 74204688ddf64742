-- Adds an event to the list of an operation that erases; nothing if it is on it.
-- Index: the primary key. Lock: the write lock.
INSERT INTO erasure_items (operation_id, event_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING;
