-- Is there a table of this name?
-- Index: the server's own. Lock: none.
SELECT 1 FROM pg_class WHERE oid = to_regclass($1);
