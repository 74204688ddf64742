-- Lets one node at a time make partitions.
-- Index: none. Lock: a number of our own, until the commit.
SELECT pg_advisory_xact_lock(7311155388384341868);
