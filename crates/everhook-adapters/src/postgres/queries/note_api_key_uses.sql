-- Notes when keys were last used, as far as they are still there.
-- Index: the primary key, and the unique key (id) of api_keys. Lock: the keys against being revoked, then the rows; in the order of their ids.
INSERT INTO api_key_uses AS known (api_key_id, last_used_at)
SELECT kept.id, used.at
FROM (SELECT id FROM api_keys WHERE id = ANY($1) ORDER BY id FOR KEY SHARE) AS kept
JOIN (SELECT id, max(at) AS at FROM unnest($1::uuid[], $2::bigint[]) AS told (id, at) GROUP BY id) AS used ON used.id = kept.id
ORDER BY kept.id
ON CONFLICT (api_key_id) DO UPDATE SET last_used_at = greatest(known.last_used_at, excluded.last_used_at);
