-- Which deliveries of a queue come first, from an instant on?
-- Index: waiting_by_lane, lanes_by_id. Lock: none, a snapshot.
SELECT id, event_id, retry_schedule, attempts, parkings, expires_into, due_at, replay_of, order_key
FROM deliveries INDEXED BY waiting_by_lane
WHERE stage = 0 AND lane = (SELECT lane FROM lanes WHERE id = ?1) AND priority = ?2 AND due_at >= ?4
ORDER BY due_at, id
LIMIT ?3;
