-- How many deliveries wait or are held for an endpoint, up to a limit each, and when was the oldest of these created?
-- Index: waiting_by_lane, open_in_order, the primary key of endpoints. Lock: none, a snapshot.
SELECT count(*) AS waiting, min(created_at) AS oldest_at FROM (
    SELECT * FROM (SELECT created_at FROM deliveries INDEXED BY waiting_by_lane
        WHERE stage = 0 AND lane = (SELECT lane FROM endpoints WHERE id = ?1) LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT created_at FROM deliveries INDEXED BY open_in_order
        WHERE order_position IS NOT NULL AND stage IN (0, 4) AND stage = 4 AND lane = (SELECT lane FROM endpoints WHERE id = ?1) LIMIT ?2)
);
