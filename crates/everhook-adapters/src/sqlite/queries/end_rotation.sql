-- Ends a rotation with its last pass.
-- Index: the primary key. Lock: the write lock.
UPDATE sealing SET from_key_id = NULL, is_cancelled = 0, ended_at = ?2
WHERE singleton = 1 AND from_key_id IS NOT NULL AND pass = ?1 AND resealed_in_pass = 0;
