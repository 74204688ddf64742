-- Lets one process at a time move a data folder into this database.
-- Index: none. Lock: a number of our own, for as long as the connection lives.
SELECT pg_try_advisory_lock(7311155388384341869) AS is_taken;
