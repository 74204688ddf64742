-- Keeps answers, each in place of an older one.
-- Index: the unique key (lane_id, hash). Lock: the rows, in the order of their keys.
INSERT INTO cached_answers (lane_id, hash, data, stored_at, expires_at) 
SELECT lane_id, hash, data, stored_at, expires_at
FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[]) AS kept (lane_id, hash, data, stored_at, expires_at)
ORDER BY lane_id, hash
ON CONFLICT (lane_id, hash) DO UPDATE SET data = excluded.data, stored_at = excluded.stored_at, expires_at = excluded.expires_at
WHERE cached_answers.stored_at < excluded.stored_at;
