-- Removes health metrics of some organizations whose ids come before one: what was received before its instant.
-- Index: health_metrics_by_organization. Lock: the write lock.
DELETE FROM health_metrics
WHERE id IN (
    SELECT m.id
    FROM organizations g CROSS JOIN health_metrics m ON m.organization_id = g.id AND m.id < ?3
    WHERE g.id > ?1 AND g.id <= ?2
    LIMIT ?4
);
