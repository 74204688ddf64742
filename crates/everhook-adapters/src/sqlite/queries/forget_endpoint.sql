-- Removes an endpoint that was deleted.
-- Index: the primary key. Lock: the write lock.
DELETE FROM endpoints WHERE id = ?1;
