-- Which deliveries were parked until an instant at most, and what becomes of them?
-- Index: parked_by_expiry, the primary key of lanes. Lock: the rows.
SELECT d.lane, d.id, d.event_id, d.priority, d.retry_schedule, d.attempts, d.parkings, d.expires_into, d.replay_of, d.order_key,
    p.id AS endpoint_id, p.application_id
FROM open_deliveries d JOIN lanes p ON p.lane = d.lane
WHERE d.stage = 5 AND d.expires_at IS NOT NULL AND d.expires_at <= $1
ORDER BY d.expires_at, d.id
LIMIT $2
FOR UPDATE OF d;
