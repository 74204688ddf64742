-- How many health connections does an organization have, counted up to a number?
-- Index: health_connections_by_profile. Lock: none, a snapshot.
SELECT count(*) AS connections FROM (SELECT 1 FROM health_connections WHERE organization_id = $1 LIMIT $2) o;
