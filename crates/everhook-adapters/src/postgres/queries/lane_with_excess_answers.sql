-- Which lane has the most answers beyond a number?
-- Index: cached_answers_by_age, walked whole: once a minute, on one node. Lock: none, a snapshot.
SELECT lane_id, count(*) - $1 AS excess FROM cached_answers GROUP BY lane_id HAVING count(*) > $1 ORDER BY excess DESC LIMIT 1;
