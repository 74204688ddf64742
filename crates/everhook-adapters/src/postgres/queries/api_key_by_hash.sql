-- Which key has this hash?
-- Index: the primary key. Lock: none.
SELECT id, organization_id, application_id, name, prefix, scopes, created_at, expires_at, last_used_at
FROM api_keys LEFT JOIN api_key_uses ON api_key_id = id
WHERE hash = $1;
