-- How does a delivery of an organization stand?
-- Index: lanes_by_organization, the primary keys of open_deliveries and deliveries in each lane: none has the id alone. Lock: none.
-- `OFFSET 0` keeps these look-ups as they stand.
SELECT d.id, p.organization_id, p.application_id, d.event_id, e.event_type, p.id AS endpoint_id, p.kind AS lane_kind, d.priority, d.retry_schedule, d.stage, d.due_at,
    d.ended_at, d.cause, d.waits_for, d.expires_at, d.expires_into, d.attempts, d.failure_category, d.replay_of, d.operation_id, d.created_at,
    (SELECT a.error FROM attempts a WHERE a.delivery_id = d.id AND a.number = d.attempts) AS last_error
FROM lanes p
    CROSS JOIN LATERAL (SELECT * FROM all_deliveries WHERE lane = p.lane AND id = $2 OFFSET 0) d
    CROSS JOIN LATERAL (SELECT event_type FROM events WHERE id = d.event_id OFFSET 0) e
WHERE p.organization_id = $1;
