-- Lifts the barriers of these lanes that have nothing open before them, and makes a new version of their applications' configurations.
-- Index: the primary keys of lanes, endpoints and the counters, waiting_by_lane, open_by_position. Lock: the rows of the lanes and endpoints; the counters
-- are taken by the caller before.
WITH liftable AS (
    SELECT p.lane, p.id, p.application_id FROM lanes p
    WHERE p.lane = ANY($1) AND p.order_barrier IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM open_deliveries d WHERE d.stage = 0 AND d.lane = p.lane)
        AND NOT EXISTS (
            SELECT 1 FROM open_deliveries d WHERE d.order_position IS NOT NULL AND d.lane = p.lane AND d.order_position < p.order_barrier
        )
), bumped AS (
    UPDATE application_counters c SET config_version = config_version + 1
    WHERE c.application_id IN (SELECT application_id FROM liftable)
    RETURNING c.application_id, c.config_version
), lifted AS (
    UPDATE lanes p SET order_barrier = NULL FROM liftable l WHERE p.lane = l.lane
), marked AS (
    UPDATE endpoints p SET changed_version = b.config_version
    FROM liftable l JOIN bumped b ON b.application_id = l.application_id
    WHERE p.id = l.id
), noted AS (
    INSERT INTO changes (kind, id) SELECT 'application', application_id FROM bumped
)
SELECT application_id FROM bumped;
