-- Which queues of these shards of a pool have anything waiting, and which delivery of each is due first? Not those of an organization that has just come
-- to the pool while a boot of the former one has not let go of it.
-- Index: waiting_by_lane, one look-up a queue; lanes_pkey; for those of the shards, the primary keys of organizations and departures. Lock: none.
-- `OFFSET 0` keeps these: otherwise all endpoints may be read.
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
FROM heads h CROSS JOIN LATERAL (SELECT organization_id, application_id, id FROM lanes WHERE lane = h.lane OFFSET 0) p
    CROSS JOIN LATERAL (
        SELECT 1 FROM organizations o
        WHERE o.id = p.organization_id AND o.worker_pool = $2
            AND NOT EXISTS (SELECT 1 FROM departures d JOIN boots b ON b.id = d.boot WHERE d.organization_id = o.id)
        OFFSET 0
    ) AS ours
WHERE ($1::bigint >> (get_byte(uuid_send(p.id), 15) & 63)) & 1 = 1;
