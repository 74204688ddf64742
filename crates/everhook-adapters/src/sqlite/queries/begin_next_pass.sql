-- Ends a pass over all sealed values, and begins the next one.
-- Index: the primary key. Lock: the write lock.
UPDATE sealing SET pass = pass + 1, kind = 'endpoints', after_id = x'00000000000000000000000000000000', after_number = 0, resealed_in_pass = 0,
    unreadable = 0, not_before = ?2
WHERE singleton = 1 AND from_key_id IS NOT NULL AND pass = ?1;
