-- How many deliveries wait, are held or parked in a lane, up to a limit each, how many of these are parked, and when was the oldest created?
-- Index: waiting_by_lane, held_in_order, parked_by_lane, lanes_by_id. Lock: none, a snapshot.
SELECT count(*) AS waiting, count(*) FILTER (WHERE stage = 5) AS parked, min(created_at) AS oldest_at FROM (
    SELECT * FROM (SELECT stage, created_at FROM deliveries INDEXED BY waiting_by_lane
        WHERE stage = 0 AND lane = (SELECT lane FROM lanes WHERE id = ?1) LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT stage, created_at FROM deliveries INDEXED BY held_in_order
        WHERE stage = 4 AND lane = (SELECT lane FROM lanes WHERE id = ?1) LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT stage, created_at FROM deliveries INDEXED BY parked_by_lane
        WHERE waits_for IS NOT NULL AND lane = (SELECT lane FROM lanes WHERE id = ?1) LIMIT ?2)
);
