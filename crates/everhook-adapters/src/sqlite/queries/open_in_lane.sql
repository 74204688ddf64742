-- Is anything open for a lane?
-- Index: waiting_by_lane, open_in_order. Lock: the write lock, taken by the caller.
SELECT EXISTS (SELECT 1 FROM deliveries INDEXED BY waiting_by_lane WHERE stage = 0 AND lane = ?1)
    OR EXISTS (SELECT 1 FROM deliveries INDEXED BY open_in_order WHERE order_position IS NOT NULL AND stage IN (0, 4, 5) AND lane = ?1);
