-- Which deliveries wait in a queue of a lane, from a place on?
-- Index: waiting_by_lane. Lock: none.
SELECT id, event_id, due_at, created_at FROM open_deliveries
WHERE stage = 0 AND lane = $1 AND priority = $2 AND (due_at, id) >= ($3, $4)
ORDER BY due_at, id
LIMIT $5;
