-- Ends a pass over all sealed values, and begins the next one.
-- Index: the primary key. Lock: the row.
UPDATE sealing SET pass = pass + 1, kind = 'endpoints', after_id = '00000000-0000-0000-0000-000000000000', after_number = 0, resealed_in_pass = 0,
    unreadable = 0, not_before = $2
WHERE singleton AND from_key_id IS NOT NULL AND pass = $1;
