-- Which connections does an organization have between two ids, newest first (a page backward: oldest first)?
-- Index: health_connections_by_organization. Lock: none.
SELECT id, organization_id, provider, external_user_id, profile_id, access_token, refresh_token, token_expires_at, permissions, is_connected,
    reauthorization_needed_since, created_at, updated_at
FROM health_connections
WHERE organization_id = $1 AND id > $2 AND id < $3
    AND ($5::text IS NULL OR provider = $5) AND ($6::text IS NULL OR external_user_id = $6) AND ($7::text IS NULL OR profile_id = $7)
ORDER BY id DESC
LIMIT $4;
