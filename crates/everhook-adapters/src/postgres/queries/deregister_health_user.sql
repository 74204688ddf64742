-- Ends the connections of a user who withdrew: tokens are cleared. Which were connected?
-- Index: the unique key (organization_id, provider, external_user_id, profile_id). Lock: the rows.
UPDATE health_connections
SET access_token = NULL, refresh_token = NULL, token_expires_at = NULL, is_connected = false, refreshing_by = NULL, refreshing_until = NULL, reauthorization_needed_since = NULL,
    updated_at = $4
WHERE organization_id = $1 AND provider = $2 AND external_user_id = $3 AND is_connected;
