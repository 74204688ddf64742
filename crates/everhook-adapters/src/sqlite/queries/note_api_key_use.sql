-- Notes when a key was last used, if there still is such a key.
-- Index: the primary key, and the unique key (id) of api_keys. Lock: the write lock.
INSERT INTO api_key_uses (api_key_id, last_used_at)
SELECT id, ?2 FROM api_keys WHERE id = ?1
ON CONFLICT (api_key_id) DO UPDATE SET last_used_at = max(last_used_at, excluded.last_used_at);
