-- Which deliveries for some endpoints are there between two ids, by the other filters, newest first (a page backward: oldest first)?
-- Index: the primary keys of open_deliveries and deliveries, from the bound on, as far as a page needs; the unique key on id. Lock: none.
-- Each endpoint's open and ended deliveries are a list of their own, in the order of the index. `OFFSET 0` keeps the look-up of each event where
-- it stands: a plan that is made for all values would rather join and sort everything.
SELECT d.id, p.organization_id, p.application_id, d.event_id, d.event_type, p.id AS endpoint_id, p.kind AS lane_kind, d.priority, d.retry_schedule, d.stage, d.due_at,
    d.ended_at, d.cause, d.waits_for, d.expires_at, d.expires_into, d.attempts, d.failure_category, d.replay_of, d.operation_id, d.created_at,
    (SELECT a.error FROM attempts a WHERE a.delivery_id = d.id AND a.number = d.attempts) AS last_error
FROM lanes p CROSS JOIN LATERAL (
        (SELECT o.id, o.event_id, e.event_type, o.priority, o.retry_schedule, o.stage, o.due_at, NULL::bigint AS ended_at, NULL::text AS cause,
            o.waits_for, o.expires_at, o.expires_into, o.attempts, o.failure_category, o.replay_of, o.operation_id, o.created_at
        FROM open_deliveries o CROSS JOIN LATERAL (SELECT event_type FROM events WHERE id = o.event_id OFFSET 0) e
        WHERE o.lane = p.lane AND o.id > $2 AND o.id < $3
            AND ($7::uuid IS NULL OR o.event_id = $7)
            AND ($8::text IS NULL OR e.event_type = $8)
            AND ($9::smallint IS NULL OR $9 IN (0, 4, 5)) AND ($9 IS NULL OR o.stage IN ($9, $14::smallint))
            AND o.attempts >= $10
            AND ($11::text IS NULL OR o.failure_category = $11)
            AND ($15::integer IS NULL OR EXISTS (
                SELECT 1 FROM attempts t WHERE t.delivery_id = o.id AND t.number = o.attempts AND t.response_status BETWEEN $15 AND $16::integer))
            AND o.created_at >= $12 AND o.created_at < $13
        ORDER BY o.id DESC
        LIMIT $4)
        UNION ALL
        (SELECT c.id, c.event_id, e.event_type, c.priority, c.retry_schedule, c.stage, NULL::bigint, c.ended_at, c.cause,
            NULL::text, NULL::bigint, NULL::text, c.attempts, c.failure_category, c.replay_of, c.operation_id, c.created_at
        FROM deliveries c CROSS JOIN LATERAL (SELECT event_type FROM events WHERE id = c.event_id OFFSET 0) e
        WHERE c.lane = p.lane AND c.id > $2 AND c.id < $3
            AND ($7::uuid IS NULL OR c.event_id = $7)
            AND ($8::text IS NULL OR e.event_type = $8)
            AND ($9::smallint IS NULL OR $9 IN (1, 2, 3)) AND ($9 IS NULL OR c.stage IN ($9, $14::smallint))
            AND c.attempts >= $10
            AND ($11::text IS NULL OR c.failure_category = $11)
            AND ($15::integer IS NULL OR EXISTS (
                SELECT 1 FROM attempts t WHERE t.delivery_id = c.id AND t.number = c.attempts AND t.response_status BETWEEN $15 AND $16::integer))
            AND c.created_at >= $12 AND c.created_at < $13
        ORDER BY c.id DESC
        LIMIT $4)
    ) d
WHERE p.id = ANY($6::uuid[]) AND p.organization_id = $1 AND ($5::uuid IS NULL OR p.application_id = $5)
ORDER BY d.id DESC
LIMIT $4;
