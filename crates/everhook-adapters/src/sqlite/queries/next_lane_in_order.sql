-- Which lane with anything ordered and open comes after this one, and how does the first of its first key stand?
-- Index: open_in_order and the primary key of lanes, one look-up each. Lock: none, a snapshot.
SELECT d.lane, d.order_key, d.stage, coalesce(d.order_position >= p.order_barrier, 0) AS behind_barrier
FROM deliveries d INDEXED BY open_in_order CROSS JOIN lanes p ON p.lane = d.lane
WHERE d.order_position IS NOT NULL AND d.stage IN (0, 4) AND d.lane > ?1
ORDER BY d.lane, d.order_key, d.order_position
LIMIT 1;
