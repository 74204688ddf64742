-- Removes health metrics of some organizations whose ids come before one: what was received before its instant.
-- Index: health_metrics_by_organization, the primary key. Lock: the rows.
DELETE FROM health_metrics m
USING (
    SELECT n.id
    FROM organizations g
        CROSS JOIN LATERAL (SELECT id FROM health_metrics WHERE organization_id = g.id AND id < $3 ORDER BY id LIMIT $4) n
    WHERE g.id > $1 AND g.id <= $2
    LIMIT $4
) AS old
WHERE m.id = old.id;
