-- Lets the first open delivery of each key wait, if it is held and no barrier is before it.
-- Index: open_in_order, lanes_pkey, then the places of the rows; enters waiting_by_lane. Lock: the one on the lanes, taken by the caller, and the rows.
UPDATE open_deliveries o SET stage = 0, due_at = f.due_at
FROM (
    SELECT u.due_at, first.place
    FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS u (lane, key, due_at)
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place, d.stage, d.order_position FROM open_deliveries d
            WHERE d.order_position IS NOT NULL AND d.lane = u.lane AND d.order_key = u.key
            ORDER BY d.order_position
            LIMIT 1
        ) AS first
        CROSS JOIN LATERAL (SELECT order_barrier FROM lanes WHERE lane = u.lane OFFSET 0) AS p
    WHERE first.stage = 4 AND (p.order_barrier IS NULL OR first.order_position < p.order_barrier)
) AS f
WHERE o.ctid = f.place AND o.stage = 4
RETURNING o.lane, o.id, o.event_id, o.priority, o.retry_schedule, o.attempts, o.parkings, o.due_at, o.replay_of, o.order_key;
