-- Keeps an answer in place of an older one.
-- Index: the unique key (lane_id, hash). Lock: the write lock.
INSERT INTO cached_answers (lane_id, hash, data, stored_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (lane_id, hash) DO UPDATE SET data = excluded.data, stored_at = excluded.stored_at, expires_at = excluded.expires_at
WHERE cached_answers.stored_at < excluded.stored_at;
