-- Whoever refreshes the tokens of a user keeps nothing.
-- Index: the unique key (organization_id, provider, external_user_id, profile_id). Lock: the rows.
UPDATE health_connections SET refreshing_by = NULL, refreshing_until = NULL
WHERE organization_id = $1 AND provider = $2 AND external_user_id = $3 AND refreshing_by IS NOT NULL;
