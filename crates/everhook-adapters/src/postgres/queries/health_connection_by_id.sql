-- Which connection has this id?
-- Index: the primary key. Lock: none.
SELECT id, organization_id, provider, external_user_id, profile_id, access_token, refresh_token, token_expires_at, permissions, is_connected,
    reauthorization_needed_since, created_at, updated_at
FROM health_connections
WHERE id = $1;
