-- Holds up boots that begin: each is there for all to see before an organization changes pools, or finds it changed.
-- Index: none. Lock: the pools, until the commit.
SELECT pg_advisory_xact_lock(2, 0);
