-- Stops a rotation, or lets it go on.
-- Index: the primary key. Lock: the write lock.
UPDATE sealing SET is_cancelled = ?1 WHERE singleton = 1 AND from_key_id IS NOT NULL AND is_cancelled <> ?1;
