-- Cancels those of some deliveries that wait or are held.
-- Index: the primary keys; leaves waiting_by_lane and open_in_order. Lock: the rows, in the order of the key.
WITH picked AS (
    SELECT o.lane, o.id
    FROM unnest($1::bigint[], $2::uuid[]) AS u (lane, id) JOIN open_deliveries o ON o.lane = u.lane AND o.id = u.id
    ORDER BY o.lane, o.id
    FOR UPDATE OF o
), ended AS (
    DELETE FROM open_deliveries o USING picked WHERE o.lane = picked.lane AND o.id = picked.id RETURNING o.*
), kept AS (
    INSERT INTO deliveries (
        lane, id, event_id, priority, stage, attempts, retry_schedule, ended_at, created_at, cause, failure_category, replay_of, operation_id
    )
    SELECT lane, id, event_id, priority, 3, attempts, retry_schedule, $3::bigint, created_at, $4::text, failure_category, replay_of, operation_id
    FROM ended
)
SELECT lane, id, event_id, replay_of, attempts, order_key FROM ended;
