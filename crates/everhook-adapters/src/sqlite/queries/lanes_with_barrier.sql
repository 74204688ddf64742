-- Which lanes have a barrier, with nothing open before it?
-- Index: lanes_with_barrier, waiting_by_lane, open_by_position. Lock: none, a snapshot; or the write lock, taken by the caller.
SELECT lane FROM lanes INDEXED BY lanes_with_barrier
WHERE order_barrier IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM deliveries d INDEXED BY waiting_by_lane WHERE d.stage = 0 AND d.lane = lanes.lane)
    AND NOT EXISTS (
        SELECT 1 FROM deliveries d INDEXED BY open_by_position
        WHERE d.order_position IS NOT NULL AND d.stage IN (0, 4, 5) AND d.lane = lanes.lane AND d.order_position < lanes.order_barrier
    )
LIMIT ?1;
