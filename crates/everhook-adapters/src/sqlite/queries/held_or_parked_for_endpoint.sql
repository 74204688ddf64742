-- Which deliveries that were made until an instant are held or parked for an endpoint?
-- Index: held_in_order, parked_by_lane, lanes_by_id. Lock: the write lock, taken by the caller.
SELECT * FROM (SELECT id, replay_of, attempts FROM deliveries INDEXED BY held_in_order
    WHERE stage = 4 AND lane = (SELECT lane FROM lanes WHERE id = ?1) AND created_at <= ?3 ORDER BY order_key, order_position LIMIT ?2)
UNION ALL
SELECT * FROM (SELECT id, replay_of, attempts FROM deliveries INDEXED BY parked_by_lane
    WHERE waits_for IS NOT NULL AND lane = (SELECT lane FROM lanes WHERE id = ?1) AND created_at <= ?3 ORDER BY id LIMIT ?2)
LIMIT ?2;
