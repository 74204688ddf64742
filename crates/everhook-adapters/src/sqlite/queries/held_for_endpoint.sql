-- Which deliveries that were made until an instant are held for an endpoint?
-- Index: open_in_order, lanes_by_id. Lock: the write lock, taken by the caller.
SELECT id, replay_of, attempts FROM deliveries INDEXED BY open_in_order
WHERE order_position IS NOT NULL AND stage IN (0, 4) AND stage = 4 AND lane = (SELECT lane FROM lanes WHERE id = ?1) AND created_at <= ?3
ORDER BY order_key, order_position
LIMIT ?2;
