-- Removes an event's data.
-- Index: the primary key. Lock: the write lock.
DELETE FROM payloads WHERE number = ?1 AND event_id = ?2;
