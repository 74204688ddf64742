-- How many deliveries between two ids are open, and how many attempts do they have together? Neither changes unless one ends or is tried.
-- Index: the primary key of open_deliveries, in each lane. Lock: none.
SELECT count(*) AS deliveries, coalesce(sum(o.attempts), 0)::bigint AS attempts
FROM lanes p CROSS JOIN LATERAL (SELECT attempts FROM open_deliveries WHERE lane = p.lane AND id > $1 AND id < $2 OFFSET 0) o;
