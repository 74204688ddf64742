-- Which deliveries of an organization are parked for this, oldest first?
-- Index: parked_by_wait, the primary key of lanes. Lock: the rows.
SELECT d.lane, d.id, d.event_id, d.priority, d.retry_schedule, d.attempts, d.parkings, NULL::text AS expires_into, d.replay_of, d.order_key,
    p.id AS endpoint_id, p.application_id
FROM open_deliveries d JOIN lanes p ON p.lane = d.lane
WHERE d.stage = 5 AND d.parked_organization_id = $1 AND d.waits_for = $2
ORDER BY d.id
LIMIT $3
FOR UPDATE OF d;
