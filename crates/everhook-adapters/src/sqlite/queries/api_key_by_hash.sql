-- Which key has this hash?
-- Index: the primary key. Lock: none, a snapshot.
SELECT id, organization_id, name, scopes, created_at, expires_at FROM api_keys WHERE hash = ?1;
