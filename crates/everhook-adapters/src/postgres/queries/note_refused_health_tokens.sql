-- Notes that a provider does not renew the tokens of a user any more.
-- Index: the unique key (organization_id, provider, external_user_id, profile_id). Lock: the rows.
UPDATE health_connections SET reauthorization_needed_since = $4, updated_at = $4
WHERE organization_id = $1 AND provider = $2 AND external_user_id = $3 AND is_connected AND access_token IS NOT NULL AND reauthorization_needed_since IS NULL;
