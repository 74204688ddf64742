-- Deletes some connections of a deleted organization.
-- Index: health_connections_by_organization. Lock: the rows.
DELETE FROM health_connections WHERE id IN (SELECT id FROM health_connections WHERE organization_id = $1 ORDER BY id LIMIT $2);
