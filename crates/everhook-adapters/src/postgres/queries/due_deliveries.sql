-- Which deliveries of a queue come first?
-- Index: waiting_by_lane. Lock: none.
SELECT id, event_id, retry_schedule, attempts, due_at, replay_of, order_key IS NOT NULL AS ordered
FROM open_deliveries
WHERE stage = 0 AND lane = $1 AND priority = $2
ORDER BY due_at, id
LIMIT $3;
