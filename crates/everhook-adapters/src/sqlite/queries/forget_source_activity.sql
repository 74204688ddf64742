-- Forgets what happened at a source.
-- Index: the primary key. Lock: the write lock.
DELETE FROM source_activity WHERE source_id = ?1;
