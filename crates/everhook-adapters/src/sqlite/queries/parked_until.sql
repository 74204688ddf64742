-- Which deliveries were parked until an instant at most, and what becomes of them?
-- Index: parked_by_expiry, the primary key of lanes. Lock: the write lock, taken by the caller.
SELECT d.id, d.event_id, d.priority, d.retry_schedule, d.attempts, d.parkings, d.expires_into, d.replay_of, d.order_key, p.id AS endpoint_id,
    p.application_id
FROM deliveries d INDEXED BY parked_by_expiry CROSS JOIN lanes p ON p.lane = d.lane
WHERE d.expires_at <= ?1
ORDER BY d.expires_at, d.id
LIMIT ?2;
