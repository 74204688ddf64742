-- Deletes some alerts of a deleted organization.
-- Index: alerts_by_organization. Lock: the rows.
DELETE FROM alerts WHERE id = ANY (ARRAY(SELECT id FROM alerts WHERE organization_id = $1 ORDER BY id LIMIT $2));
