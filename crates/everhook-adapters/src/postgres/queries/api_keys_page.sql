-- Which keys does an organization have between two ids, newest first (a page backward: oldest first)?
-- Index: api_keys_by_organization. Lock: none.
SELECT id, organization_id, application_id, name, prefix, scopes, created_at, expires_at, last_used_at
FROM api_keys LEFT JOIN api_key_uses ON api_key_id = id
WHERE organization_id = $1 AND id > $2 AND id < $3
ORDER BY id DESC
LIMIT $4;
