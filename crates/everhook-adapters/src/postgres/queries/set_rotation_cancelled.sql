-- Stops a rotation, or lets it go on.
-- Index: the primary key. Lock: the row.
UPDATE sealing SET is_cancelled = $1 WHERE singleton AND from_key_id IS NOT NULL AND is_cancelled <> $1;
