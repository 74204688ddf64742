-- Which keys have a first open delivery that is held, though no barrier (but those that are about to be lifted) is before it?
-- Index: open_in_order, one look-up a key. Lock: none, a snapshot.
-- Those that have a key to themselves ('#…') and wait behind a barrier all wait behind the same: one look steps over them ('$' sorts behind them).
WITH RECURSIVE heads AS (
    (
        SELECT d.lane, d.order_key, d.stage, d.order_position FROM open_deliveries d
        WHERE d.order_position IS NOT NULL
        ORDER BY d.lane, d.order_key, d.order_position
        LIMIT 1
    )
    UNION ALL
    SELECT n.lane, n.order_key, n.stage, n.order_position
    FROM heads h
        JOIN lanes p ON p.lane = h.lane
        CROSS JOIN LATERAL (
            SELECT d.lane, d.order_key, d.stage, d.order_position FROM open_deliveries d
            WHERE d.order_position IS NOT NULL
                AND (d.lane, d.order_key) > (
                    h.lane,
                    CASE WHEN h.stage = 4 AND h.order_position >= p.order_barrier AND h.order_key LIKE '#%' AND h.lane <> ALL($1)
                        THEN '$' ELSE h.order_key END
                )
            ORDER BY d.lane, d.order_key, d.order_position
            LIMIT 1
        ) AS n
)
SELECT h.lane, h.order_key
FROM heads h JOIN lanes p ON p.lane = h.lane
WHERE h.stage = 4 AND (p.order_barrier IS NULL OR h.order_position < p.order_barrier OR h.lane = ANY($1))
LIMIT $2;
