-- Which keys does an organization have between two ids, newest first?
-- Index: api_keys_by_organization. Lock: none, a snapshot.
SELECT id, organization_id, name, scopes, created_at, expires_at FROM api_keys
WHERE organization_id = ?1 AND id > ?2 AND id < ?3
ORDER BY id DESC
LIMIT ?4;
