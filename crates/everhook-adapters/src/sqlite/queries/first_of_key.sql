-- Which open delivery of a key comes first, and is there a barrier before it?
-- Index: open_in_order, the primary key of lanes. Lock: the write lock, taken by the caller.
SELECT d.id, d.stage, d.event_id, d.priority, d.retry_schedule, d.attempts, d.parkings, d.replay_of,
    coalesce(d.order_position >= p.order_barrier, 0) AS behind_barrier
FROM deliveries d INDEXED BY open_in_order CROSS JOIN lanes p ON p.lane = d.lane
WHERE d.order_position IS NOT NULL AND d.stage IN (0, 4, 5) AND d.lane = ?1 AND d.order_key = ?2
ORDER BY d.order_position
LIMIT 1;
