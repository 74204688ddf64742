-- Seals with another key from now on, unless that is in use, or a rotation between two other keys is under way.
-- Index: the primary key. Lock: the row.
UPDATE sealing SET from_key_id = key_id, key_id = $1, is_cancelled = false, pass = 1, kind = 'endpoints', after_id = '00000000-0000-0000-0000-000000000000',
    after_number = 0, resealed_in_pass = 0, looked_at = 0, resealed = 0, unreadable = 0, began_at = $2, not_before = $2, ended_at = NULL
WHERE singleton AND key_id <> $1 AND (from_key_id IS NULL OR from_key_id = $1);
