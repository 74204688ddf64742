-- Which key of an organization has this id?
-- Index: the unique key (id). Lock: none, a snapshot.
SELECT id, organization_id, application_id, name, prefix, scopes, created_at, expires_at, last_used_at
FROM api_keys LEFT JOIN api_key_uses ON api_key_id = id
WHERE organization_id = ?1 AND id = ?2;
