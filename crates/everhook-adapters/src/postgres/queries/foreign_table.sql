-- Which table is in this database that is not ours? None once ours are made: then it was looked at, and is ours.
-- Index: pg_class's own. Lock: none.
SELECT c.relname::text AS name
FROM pg_class c
WHERE c.relnamespace::regnamespace::text <> 'information_schema' AND c.relnamespace::regnamespace::text NOT LIKE 'pg\_%'
    AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND to_regclass('moved_tables') IS NULL
    -- What an extension brought along is nobody's data.
    AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY c.relname
LIMIT 1;
