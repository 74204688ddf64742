-- Removes an event's labels, headers and ordering key.
-- Index: the primary key. Lock: the write lock.
DELETE FROM event_extras WHERE event_id = ?1;
