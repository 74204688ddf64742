-- Which deliveries of an event are there between two ids, by the other filters, newest first (a page backward: oldest first)?
-- Index: the primary key for those that were made with the event, made_later_by_event for the others, the primary key of lanes. Lock: none, a snapshot.
-- `CROSS` keeps the order of the joins: otherwise SQLite begins with the organization's endpoints and walks all that they ever got.
-- `+` keeps the bounds of the page from the primary key: otherwise SQLite walks the page's ids instead of the event's, which may be all there are.
SELECT d.id, p.organization_id, p.application_id, d.event_id, e.event_type, p.id AS endpoint_id, p.kind AS lane_kind, d.priority, d.retry_schedule, d.stage, d.due_at,
    d.ended_at, d.cause, d.waits_for, d.expires_at, d.expires_into, d.attempts, d.failure_category, a.error AS last_error, d.replay_of, d.operation_id, d.created_at
FROM (
        SELECT o.id FROM events v CROSS JOIN deliveries o ON o.id BETWEEN v.first_delivery_id AND v.last_delivery_id
        WHERE v.id = ?7 AND o.event_id = ?7 AND o.replay_of IS NULL AND o.operation_id IS NULL
        UNION ALL
        SELECT id FROM deliveries INDEXED BY made_later_by_event
        WHERE event_id = ?7 AND (replay_of IS NOT NULL OR operation_id IS NOT NULL)
    ) found
    CROSS JOIN deliveries d ON d.id = found.id
    CROSS JOIN lanes p ON p.lane = d.lane
    JOIN events e ON e.id = d.event_id
    LEFT JOIN attempts a ON a.delivery_id = d.id AND a.number = d.attempts
WHERE p.organization_id = ?1 AND +d.id > ?2 AND +d.id < ?3
    AND (?5 IS NULL OR p.application_id = ?5)
    AND (?6 IS NULL OR p.id = ?6)
    AND (?7 IS NULL OR d.event_id = ?7)
    AND (?8 IS NULL OR e.event_type = ?8)
    AND (?9 IS NULL OR d.stage IN (?9, ?14))
    AND d.attempts >= ?10
    AND (?11 IS NULL OR d.failure_category = ?11)
    AND (?15 IS NULL OR a.response_status BETWEEN ?15 AND ?16)
    AND d.created_at >= ?12 AND d.created_at < ?13
ORDER BY d.id DESC
LIMIT ?4;
