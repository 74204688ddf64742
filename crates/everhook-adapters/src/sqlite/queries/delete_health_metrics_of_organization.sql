-- Deletes some metrics of a deleted organization.
-- Index: health_metrics_by_organization. Lock: the write lock.
DELETE FROM health_metrics WHERE id IN (SELECT id FROM health_metrics WHERE organization_id = ?1 ORDER BY id LIMIT ?2);
