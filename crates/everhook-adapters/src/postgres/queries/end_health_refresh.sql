-- Gives the right to refresh the tokens of a user back. Was it still there?
-- Index: the unique key (organization_id, provider, external_user_id, profile_id). Lock: the row.
UPDATE health_connections SET refreshing_by = NULL, refreshing_until = NULL
WHERE organization_id = $1 AND provider = $2 AND external_user_id = $3 AND refreshing_by = $4;
