-- Which queue of a lane with anything waiting comes after this one, and which delivery of it is due first?
-- Index: waiting_by_lane and the primary key of lanes, one look-up each. Lock: none, a snapshot.
-- Apart from `next_lane`: a comparison of pairs would make SQLite walk the whole queue that it is to step over.
SELECT d.lane, e.id AS endpoint_id, d.priority, d.id, d.due_at, e.organization_id, e.application_id
FROM deliveries d INDEXED BY waiting_by_lane CROSS JOIN lanes e ON e.lane = d.lane
WHERE d.stage = 0 AND d.lane = ?1 AND d.priority > ?2
ORDER BY d.priority, d.due_at, d.id
LIMIT 1;
