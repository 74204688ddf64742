-- Lets one node at a time bring the schema up to date.
-- Index: none. Lock: a number of our own (the letters "everhook"), until the commit.
SELECT pg_advisory_xact_lock(7311155388384341867);
