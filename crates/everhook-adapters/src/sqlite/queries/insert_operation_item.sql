-- Adds an event and an endpoint to an operation's list; nothing if they are on it, or if the event is gone.
-- Index: the primary keys. Lock: the write lock.
INSERT INTO operation_items (operation_id, position, lane, event_id, replay_of)
SELECT ?1, e.sequence_number, ?3, e.id, ?4 FROM events e WHERE e.id = ?2
ON CONFLICT DO NOTHING;
