-- Which lane with anything held comes after this one, and what is before the first that is held of its first key?
-- Index: held_in_order, open_in_order and the primary key of lanes, one look-up each. Lock: none, a snapshot.
SELECT d.lane, d.order_key, coalesce(d.order_position >= p.order_barrier, 0) AS behind_barrier, EXISTS (
        SELECT 1 FROM deliveries o INDEXED BY open_in_order
        WHERE o.order_position IS NOT NULL AND o.stage IN (0, 4, 5) AND o.lane = d.lane AND o.order_key = d.order_key
            AND o.order_position < d.order_position
    ) AS behind_another
FROM deliveries d INDEXED BY held_in_order CROSS JOIN lanes p ON p.lane = d.lane
WHERE d.stage = 4 AND d.lane > ?1
ORDER BY d.lane, d.order_key, d.order_position
LIMIT 1;
