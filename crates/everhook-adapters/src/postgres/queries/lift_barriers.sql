-- Lifts the barriers of these lanes that have nothing open before them, and makes a new version of their applications' configurations.
-- Index: the unique key on lane, waiting_by_lane, open_by_position, the primary key of the counters. Lock: the rows of the endpoints; the counters are
-- taken by the caller before.
WITH lifted AS (
    UPDATE endpoints p SET order_barrier = NULL
    WHERE p.lane = ANY($1) AND p.order_barrier IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM open_deliveries d WHERE d.stage = 0 AND d.lane = p.lane)
        AND NOT EXISTS (
            SELECT 1 FROM open_deliveries d WHERE d.order_position IS NOT NULL AND d.lane = p.lane AND d.order_position < p.order_barrier
        )
    RETURNING p.application_id
), noted AS (
    INSERT INTO changes (kind, id) SELECT DISTINCT 'application', application_id FROM lifted
)
UPDATE application_counters c SET config_version = config_version + 1
WHERE c.application_id IN (SELECT application_id FROM lifted)
RETURNING c.application_id;
