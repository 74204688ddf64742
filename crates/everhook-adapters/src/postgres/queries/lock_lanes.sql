-- Holds up whoever else makes or ends ordered deliveries of these lanes.
-- Index: none. Lock: the lanes, by their numbers and in their order, until the commit.
SELECT pg_advisory_xact_lock(1, lane) FROM (SELECT (l % 2147483647)::integer AS lane FROM unnest($1::bigint[]) AS l ORDER BY 1) AS lanes;
