-- Notes what a user lets the provider pass on.
-- Index: the unique key (organization_id, provider, external_user_id, profile_id). Lock: the rows.
UPDATE health_connections SET permissions = $4, updated_at = $5
WHERE organization_id = $1 AND provider = $2 AND external_user_id = $3;
