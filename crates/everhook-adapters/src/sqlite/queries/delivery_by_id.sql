-- How does a delivery of an organization stand?
-- Index: the primary keys, the primary key of lanes. Lock: none, a snapshot.
SELECT d.id, p.organization_id, p.application_id, d.event_id, e.event_type, p.id AS endpoint_id, p.kind AS lane_kind, d.priority, d.retry_schedule, d.stage, d.due_at,
    d.ended_at, d.cause, d.waits_for, d.expires_at, d.expires_into, d.attempts, d.failure_category, a.error AS last_error, d.replay_of, d.operation_id, d.created_at
FROM deliveries d
    JOIN lanes p ON p.lane = d.lane
    JOIN events e ON e.id = d.event_id
    LEFT JOIN attempts a ON a.delivery_id = d.id AND a.number = d.attempts
WHERE d.id = ?2 AND p.organization_id = ?1;
