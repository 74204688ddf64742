-- Removes those of some lanes that are of channels, processors, applications or organizations that were removed, if nothing that is kept names them, with what belongs to each.
-- Index: lanes_by_id, the primary keys. Lock: the rows.
WITH gone AS (
    DELETE FROM lanes WHERE lane = ANY(ARRAY(
        SELECT l.lane FROM lanes l
        WHERE l.id > $1 AND l.id <= $2 AND l.kind <> 'endpoint'
            AND NOT EXISTS (SELECT FROM applications a WHERE a.id = l.application_id AND l.kind IN ('capability', 'application'))
        AND NOT EXISTS (SELECT FROM organizations g WHERE g.id = l.id AND g.deleted_at IS NULL)
        AND NOT EXISTS (SELECT FROM channels c WHERE c.id = l.id)
            AND NOT EXISTS (SELECT FROM sources s WHERE s.id = l.id AND s.processor IS NOT NULL)
            AND (SELECT true FROM open_deliveries WHERE lane = l.lane LIMIT 1) IS NULL
            AND (SELECT true FROM deliveries WHERE lane = l.lane LIMIT 1) IS NULL
            AND (SELECT true FROM dead_letters WHERE endpoint_id = l.id LIMIT 1) IS NULL
            AND (SELECT true FROM rollups WHERE lane = l.lane LIMIT 1) IS NULL
    ))
    RETURNING id, lane
), breakers AS (
    DELETE FROM circuit_breakers WHERE endpoint_id = ANY(ARRAY(SELECT id FROM gone))
), newest AS (
    DELETE FROM endpoint_activity WHERE lane = ANY(ARRAY(SELECT lane FROM gone))
)
SELECT count(*) AS removed FROM gone;
