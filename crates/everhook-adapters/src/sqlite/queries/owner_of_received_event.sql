-- Whose is an event that came through a source? No row if it came otherwise.
-- Index: the primary keys. Lock: none, or the write lock, taken by the caller.
SELECT e.organization_id FROM received_events r JOIN events e ON e.id = r.event_id WHERE r.event_id = ?1;
