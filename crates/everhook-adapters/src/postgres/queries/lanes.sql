-- Which queues of these shards have anything waiting, and which delivery of each is due first?
-- Index: waiting_by_lane, one look-up a queue; the unique key on lane. Lock: none.
WITH RECURSIVE heads AS (
    (
        SELECT lane, priority, due_at, id FROM open_deliveries WHERE stage = 0 ORDER BY lane, priority, due_at, id LIMIT 1
    )
    UNION ALL
    SELECT n.lane, n.priority, n.due_at, n.id
    FROM heads h
        CROSS JOIN LATERAL (
            SELECT d.lane, d.priority, d.due_at, d.id FROM open_deliveries d
            WHERE d.stage = 0 AND (d.lane, d.priority) > (h.lane, h.priority)
            ORDER BY d.lane, d.priority, d.due_at, d.id
            LIMIT 1
        ) AS n
)
SELECT p.organization_id, p.application_id, p.id AS endpoint_id, h.priority, h.id, h.due_at
FROM heads h JOIN endpoints p ON p.lane = h.lane
WHERE ($1::bigint >> (get_byte(uuid_send(p.id), 15) & 63)) & 1 = 1;
