-- Deletes the connections of a profile.
-- Index: health_connections_by_profile. Lock: the rows.
DELETE FROM health_connections WHERE organization_id = $1 AND profile_id = $2;
