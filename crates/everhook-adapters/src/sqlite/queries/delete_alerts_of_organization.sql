-- Deletes some alerts of a deleted organization.
-- Index: alerts_by_organization. Lock: the write lock.
DELETE FROM alerts WHERE id IN (SELECT id FROM alerts WHERE organization_id = ?1 ORDER BY id LIMIT ?2);
