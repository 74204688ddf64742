-- Which queue with anything waiting comes after this one, and which delivery of it is due first?
-- Index: waiting_by_lane, one look-up. Lock: none, a snapshot.
SELECT d.endpoint_id, d.priority, d.id, d.due_at, e.organization_id, e.application_id
FROM deliveries d INDEXED BY waiting_by_lane JOIN endpoints e ON e.id = d.endpoint_id
WHERE d.stage = 0 AND (d.endpoint_id, d.priority) > (?1, ?2)
ORDER BY d.endpoint_id, d.priority, d.due_at, d.id
LIMIT 1;
