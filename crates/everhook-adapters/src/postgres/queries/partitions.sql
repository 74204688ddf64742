-- Which partitions by day are there?
-- Index: the server's own. Lock: none.
SELECT c.relname AS name
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent IN ('events_daily'::regclass, 'deliveries_daily'::regclass, 'attempts_daily'::regclass);
