-- Were the tables made?
-- Index: the server's own. Lock: none.
SELECT to_regclass('node_locks') IS NOT NULL AS is_there;
