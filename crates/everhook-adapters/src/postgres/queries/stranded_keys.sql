-- Which keys have a first delivery that is held, with nothing open and no barrier (but those that are about to be lifted) before it? Looks at so many keys
-- with anything held, from one on; answers with the last that it looked at, too, if there may be more.
-- Index: held_in_order, open_in_order and lanes_pkey, one look-up a key. Lock: none.
-- Those that have a key to themselves ('#…') and wait behind a barrier all wait behind the same: one look steps over them ('$' sorts behind them).
WITH RECURSIVE heads AS (
    (
        SELECT 1 AS number, d.lane, d.order_key, d.order_position, p.order_barrier
        FROM open_deliveries d CROSS JOIN LATERAL (SELECT order_barrier FROM lanes WHERE lane = d.lane OFFSET 0) p
        WHERE d.stage = 4 AND (d.lane, d.order_key) > ($3, $4)
        ORDER BY d.lane, d.order_key, d.order_position
        LIMIT 1
    )
    UNION ALL
    SELECT h.number + 1, n.lane, n.order_key, n.order_position, p.order_barrier
    FROM heads h
        CROSS JOIN LATERAL (
            SELECT d.lane, d.order_key, d.order_position FROM open_deliveries d
            WHERE d.stage = 4
                AND (d.lane, d.order_key) > (
                    h.lane,
                    CASE WHEN h.order_position >= h.order_barrier AND h.order_key LIKE '#%' AND h.lane <> ALL($1) THEN '$' ELSE h.order_key END
                )
            ORDER BY d.lane, d.order_key, d.order_position
            LIMIT 1
        ) AS n
        CROSS JOIN LATERAL (SELECT order_barrier FROM lanes WHERE lane = n.lane OFFSET 0) p
    WHERE h.number < $2
), seen AS MATERIALIZED (
    SELECT h.number, h.lane, h.order_key,
        (h.order_barrier IS NULL OR h.order_position < h.order_barrier OR h.lane = ANY($1))
        AND NOT EXISTS (
            SELECT 1 FROM open_deliveries o
            WHERE o.order_position IS NOT NULL AND o.lane = h.lane AND o.order_key = h.order_key AND o.order_position < h.order_position
        ) AS is_stranded
    FROM heads h
)
SELECT lane, order_key, is_stranded, number = $2 AS is_last FROM seen WHERE is_stranded OR number = $2 ORDER BY number;
