-- Which lanes have a barrier, with nothing open before it?
-- Index: lanes_with_barrier, waiting_by_lane, open_by_position. Lock: none.
SELECT lane FROM lanes p
WHERE p.order_barrier IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM open_deliveries d WHERE d.stage = 0 AND d.lane = p.lane)
    AND NOT EXISTS (
        SELECT 1 FROM open_deliveries d WHERE d.order_position IS NOT NULL AND d.lane = p.lane AND d.order_position < p.order_barrier
    )
LIMIT $1;
