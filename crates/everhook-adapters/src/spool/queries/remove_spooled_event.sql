-- Removes an event that is in the store, and says as how many bytes it counted.
-- Index: the primary key. Lock: the write lock.
DELETE FROM spooled_events WHERE position = ?1 RETURNING bytes;
