-- Deletes some metrics of a profile.
-- Index: health_metrics_by_profile. Lock: the write lock.
DELETE FROM health_metrics WHERE id IN (
    SELECT id FROM health_metrics WHERE organization_id = ?1 AND profile_id = ?2 ORDER BY id LIMIT ?3
);
