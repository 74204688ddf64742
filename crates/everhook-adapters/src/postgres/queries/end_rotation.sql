-- Ends a rotation with its last pass.
-- Index: the primary key. Lock: the row.
UPDATE sealing SET from_key_id = NULL, is_cancelled = false, ended_at = $2
WHERE singleton AND from_key_id IS NOT NULL AND pass = $1 AND resealed_in_pass = 0;
