-- Which connections do these profiles have? Whoever writes metrics of a profile, or erases it, waits for others who do.
-- Index: health_connections_by_profile. Lock: the rows, in the order of their ids.
SELECT id, profile_id, provider, is_connected
FROM health_connections
WHERE organization_id = $1 AND profile_id IN (SELECT c.profile_id FROM health_connections c WHERE c.id = ANY($2))
ORDER BY id
FOR UPDATE;
