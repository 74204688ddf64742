-- Takes the right to refresh the tokens of a user, unless somebody has it.
-- Index: the unique key (organization_id, provider, external_user_id, profile_id). Lock: the row.
UPDATE health_connections SET refreshing_by = $4, refreshing_until = $6
WHERE id = (SELECT id FROM health_connections WHERE organization_id = $1 AND provider = $2 AND external_user_id = $3 ORDER BY id LIMIT 1)
    AND (refreshing_until IS NULL OR refreshing_until <= $5);
