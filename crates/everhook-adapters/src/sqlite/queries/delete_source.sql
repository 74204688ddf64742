-- Deletes a source.
-- Index: the primary key. Lock: the write lock.
DELETE FROM sources WHERE id = ?2 AND organization_id = ?1;
