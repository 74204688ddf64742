-- Cancels some of the deliveries that wait or are held for a lane and were made until an instant, oldest first.
-- Index: the primary keys; leaves waiting_by_lane and open_in_order. Lock: the rows.
WITH picked AS (
    SELECT id FROM open_deliveries WHERE lane = $1 AND created_at <= $2 ORDER BY id LIMIT $3 FOR UPDATE
), ended AS (
    DELETE FROM open_deliveries o WHERE o.lane = $1 AND o.id IN (SELECT id FROM picked) RETURNING o.*
), kept AS (
    INSERT INTO deliveries (
        lane, id, event_id, priority, stage, attempts, retry_schedule, ended_at, created_at, cause, failure_category, replay_of, operation_id
    )
    SELECT lane, id, event_id, priority, 3, attempts, retry_schedule, $4::bigint, created_at, $5::text, failure_category, replay_of, operation_id
    FROM ended
)
SELECT id, event_id, replay_of, attempts FROM ended;
