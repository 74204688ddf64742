-- Which deliveries wait in a queue of an endpoint, from a place on?
-- Index: waiting_by_lane, lanes_by_id. Lock: none, a snapshot.
SELECT id, event_id, due_at, created_at FROM deliveries INDEXED BY waiting_by_lane
WHERE stage = 0 AND lane = (SELECT lane FROM lanes WHERE id = ?1) AND priority = ?2 AND (due_at, id) >= (?3, ?4)
ORDER BY due_at, id
LIMIT ?5;
