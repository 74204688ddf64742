-- Which lane with anything waiting comes after this one, and which delivery of its first queue is due first?
-- Index: waiting_by_lane and the primary key of lanes, one look-up each. Lock: none, a snapshot.
SELECT d.lane, e.id AS endpoint_id, d.priority, d.id, d.due_at, e.organization_id, e.application_id
FROM deliveries d INDEXED BY waiting_by_lane CROSS JOIN lanes e ON e.lane = d.lane
WHERE d.stage = 0 AND d.lane > ?1
ORDER BY d.lane, d.priority, d.due_at, d.id
LIMIT 1;
