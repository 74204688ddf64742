-- Notes how far a pass is, unless the rotation was stopped or stands elsewhere.
-- Index: the primary key. Lock: the write lock.
UPDATE sealing SET kind = ?4, after_id = ?5, after_number = ?6, looked_at = looked_at + ?7, resealed = resealed + ?8,
    resealed_in_pass = resealed_in_pass + ?8, unreadable = unreadable + ?9
WHERE singleton = 1 AND from_key_id IS NOT NULL AND is_cancelled = 0 AND kind = ?1 AND after_id = ?2 AND after_number = ?3;
