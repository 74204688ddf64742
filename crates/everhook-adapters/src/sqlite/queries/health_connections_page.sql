-- Which connections does an organization have between two ids, newest first (a page backward: oldest first)?
-- Index: health_connections_by_organization, or health_connections_by_profile where a profile is named. Lock: none, a snapshot.
SELECT id, organization_id, provider, external_user_id, profile_id, access_token, refresh_token, token_expires_at, permissions, is_connected,
    reauthorization_needed_since, created_at, updated_at
FROM health_connections
WHERE organization_id = ?1 AND id > ?2 AND id < ?3
    AND (?5 IS NULL OR provider = ?5) AND (?6 IS NULL OR external_user_id = ?6) AND (?7 IS NULL OR profile_id = ?7)
ORDER BY id DESC
LIMIT ?4;
