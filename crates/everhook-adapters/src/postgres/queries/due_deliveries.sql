-- Which deliveries of these queues come first? Each with the place of its queue in the question.
-- Index: waiting_by_lane. Lock: none.
SELECT q.place - 1 AS place, d.*
FROM unnest($1::bigint[], $2::smallint[], $3::bigint[]) WITH ORDINALITY AS q (lane, priority, wanted, place)
    CROSS JOIN LATERAL (
        SELECT id, event_id, retry_schedule, attempts, due_at, replay_of, order_key
        FROM open_deliveries
        WHERE stage = 0 AND lane = q.lane AND priority = q.priority
        ORDER BY due_at, id
        LIMIT q.wanted
    ) AS d;
