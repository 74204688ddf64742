-- Which nodes are alive?
-- Index: none, a row for each node. Lock: none.
SELECT node FROM boots WHERE good_until > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint ORDER BY node;
