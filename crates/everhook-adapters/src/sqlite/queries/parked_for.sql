-- Which deliveries of an organization are parked for this, oldest first?
-- Index: parked_by_wait, the primary key of lanes. Lock: the write lock, taken by the caller.
SELECT d.id, d.event_id, d.priority, d.retry_schedule, d.attempts, d.parkings, NULL AS expires_into, d.replay_of, d.order_key, p.id AS endpoint_id,
    p.application_id
FROM deliveries d INDEXED BY parked_by_wait CROSS JOIN lanes p ON p.lane = d.lane
WHERE d.parked_organization_id = ?1 AND d.waits_for = ?2
ORDER BY d.id
LIMIT ?3;
