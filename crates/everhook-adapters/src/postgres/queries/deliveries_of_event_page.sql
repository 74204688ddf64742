-- Which deliveries of an event are there between two ids, by the other filters, newest first (a page backward: oldest first)?
-- Index: the primary keys of open_deliveries and deliveries: in each lane of the application the stretch of what was made with the event, and
-- one by one what made_later has; lanes_by_application, lanes_pkey. Lock: none.
-- `OFFSET 0` keeps the look-ups by lane: otherwise all that the endpoints ever got may be read and joined.
SELECT d.id, p.organization_id, p.application_id, d.event_id, v.event_type, p.id AS endpoint_id, p.kind AS lane_kind, d.priority, d.retry_schedule, d.stage, d.due_at,
    d.ended_at, d.cause, d.waits_for, d.expires_at, d.expires_into, d.attempts, d.failure_category, d.replay_of, d.operation_id, d.created_at,
    (SELECT a.error FROM attempts a WHERE a.delivery_id = d.id AND a.number = d.attempts) AS last_error
FROM events v
    CROSS JOIN LATERAL (
        SELECT lane, v.first_delivery_id AS first, v.last_delivery_id AS last, false AS is_later
        FROM lanes WHERE application_id = v.application_id
        UNION ALL
        SELECT lane, id, id, true FROM made_later WHERE event_id = v.id AND id > $2 AND id < $3
    ) place
    CROSS JOIN LATERAL (
        SELECT * FROM all_deliveries
        WHERE lane = place.lane AND id BETWEEN place.first AND place.last AND id > $2 AND id < $3 AND event_id = $7
            AND (replay_of IS NOT NULL OR operation_id IS NOT NULL) = place.is_later
        OFFSET 0
    ) d
    CROSS JOIN LATERAL (SELECT id, kind, organization_id, application_id FROM lanes WHERE lane = d.lane OFFSET 0) p
WHERE v.id = $7 AND p.organization_id = $1
    AND ($5::uuid IS NULL OR p.application_id = $5)
    AND ($6::uuid[] IS NULL OR p.id = ANY($6))
    AND ($8::text IS NULL OR v.event_type = $8)
    AND ($9::smallint IS NULL OR d.stage IN ($9, $14::smallint))
    AND d.attempts >= $10
    AND ($11::text IS NULL OR d.failure_category = $11)
    AND ($15::integer IS NULL OR EXISTS (
        SELECT 1 FROM attempts t WHERE t.delivery_id = d.id AND t.number = d.attempts AND t.response_status BETWEEN $15 AND $16::integer))
    AND d.created_at >= $12 AND d.created_at < $13
ORDER BY d.id DESC
LIMIT $4;
