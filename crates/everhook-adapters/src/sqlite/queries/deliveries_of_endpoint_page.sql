-- Which deliveries for an endpoint are there between two ids, by the other filters, newest first (a page backward: oldest first)?
-- Index: deliveries_by_lane. Lock: none, a snapshot.
SELECT d.id, p.organization_id, p.application_id, d.event_id, e.event_type, p.id AS endpoint_id, p.kind AS lane_kind, d.priority, d.retry_schedule, d.stage, d.due_at,
    d.ended_at, d.cause, d.waits_for, d.expires_at, d.expires_into, d.attempts, d.failure_category, a.error AS last_error, d.replay_of, d.operation_id, d.created_at
FROM deliveries d INDEXED BY deliveries_by_lane
    JOIN lanes p ON p.lane = d.lane
    JOIN events e ON e.id = d.event_id
    LEFT JOIN attempts a ON a.delivery_id = d.id AND a.number = d.attempts
WHERE d.lane = (SELECT lane FROM lanes WHERE id = ?6) AND p.organization_id = ?1 AND d.id > ?2 AND d.id < ?3
    AND (?5 IS NULL OR p.application_id = ?5)
    AND (?7 IS NULL OR d.event_id = ?7)
    AND (?8 IS NULL OR e.event_type = ?8)
    AND (?9 IS NULL OR d.stage IN (?9, ?14))
    AND d.attempts >= ?10
    AND (?11 IS NULL OR d.failure_category = ?11)
    AND (?15 IS NULL OR a.response_status BETWEEN ?15 AND ?16)
    AND d.created_at >= ?12 AND d.created_at < ?13
ORDER BY d.id DESC
LIMIT ?4;
