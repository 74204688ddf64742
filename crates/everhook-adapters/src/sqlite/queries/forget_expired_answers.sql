-- Removes some answers that have expired.
-- Index: cached_answers_by_expiry. Lock: the write lock.
DELETE FROM cached_answers WHERE rowid IN (SELECT rowid FROM cached_answers WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2);
