-- How many deliveries wait or are held in a lane, up to a limit, and when was the oldest of these created?
-- Index: the primary key. Lock: none.
SELECT count(*) AS waiting, min(created_at) AS oldest_at
FROM (SELECT created_at FROM open_deliveries WHERE lane = $1 ORDER BY lane, id LIMIT $2) o;
