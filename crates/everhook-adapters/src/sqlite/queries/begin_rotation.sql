-- Seals with another key from now on, unless that is in use, or a rotation between two other keys is under way.
-- Index: the primary key. Lock: the write lock.
UPDATE sealing SET from_key_id = key_id, key_id = ?1, is_cancelled = 0, pass = 1, kind = 'endpoints', after_id = x'00000000000000000000000000000000',
    after_number = 0, resealed_in_pass = 0, looked_at = 0, resealed = 0, unreadable = 0, began_at = ?2, not_before = ?2, ended_at = NULL
WHERE singleton = 1 AND key_id <> ?1 AND (from_key_id IS NULL OR from_key_id = ?1);
