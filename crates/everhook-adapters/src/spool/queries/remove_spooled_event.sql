-- Removes an event that is in the store, and says whose it was and as how many bytes it counted.
-- Index: the primary key. Lock: the write lock.
DELETE FROM spooled_events WHERE position = ?1 RETURNING application_id, bytes;
