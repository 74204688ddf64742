-- Removes an event's labels and headers.
-- Index: the primary key. Lock: the write lock.
DELETE FROM event_extras WHERE event_id = ?1;
