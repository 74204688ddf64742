-- Which connections does a user of a provider have, oldest first? Their number is bounded where they are made.
-- Index: the unique key (organization_id, provider, external_user_id, profile_id). Lock: none.
SELECT id, organization_id, provider, external_user_id, profile_id, access_token, refresh_token, token_expires_at, permissions, is_connected,
    reauthorization_needed_since, created_at, updated_at
FROM health_connections
WHERE organization_id = $1 AND provider = $2 AND external_user_id = $3
ORDER BY id;
