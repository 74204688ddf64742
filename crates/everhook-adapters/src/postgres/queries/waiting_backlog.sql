-- How many deliveries wait, are held or parked in a lane, up to a limit, how many of these are parked, and when was the oldest created?
-- Index: the primary key. Lock: none.
SELECT count(*) AS waiting, count(*) FILTER (WHERE stage = 5) AS parked, min(created_at) AS oldest_at
FROM (SELECT stage, created_at FROM open_deliveries WHERE lane = $1 ORDER BY lane, id LIMIT $2) o;
