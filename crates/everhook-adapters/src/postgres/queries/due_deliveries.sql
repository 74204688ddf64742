-- Which deliveries of these queues come first, each from an instant on? Those that are due, and the first that is not, each with the place of its queue in the
-- question.
-- Index: waiting_by_lane. Lock: none.
SELECT q.place - 1 AS place, d.*
FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS q (lane, priority, wanted, due_from, place)
    CROSS JOIN LATERAL (
        (
            SELECT id, event_id, retry_schedule, attempts, parkings, expires_into, due_at, replay_of, order_key
            FROM open_deliveries
            WHERE stage = 0 AND lane = q.lane AND priority = q.priority AND due_at >= q.due_from AND due_at <= $5
            ORDER BY due_at, id
            LIMIT q.wanted
        )
        UNION ALL
        (
            SELECT id, event_id, retry_schedule, attempts, parkings, expires_into, due_at, replay_of, order_key
            FROM open_deliveries
            WHERE stage = 0 AND lane = q.lane AND priority = q.priority AND due_at >= q.due_from AND due_at > $5
            ORDER BY due_at, id
            LIMIT 1
        )
    ) AS d;
