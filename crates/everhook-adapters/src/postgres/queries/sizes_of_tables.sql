-- How many rows do tables have, as far as the server knows, and how many bytes with their partitions and indexes?
-- Index: the server's own. Lock: none that anybody notices; a partition that is being dropped is waited for.
WITH RECURSIVE parts AS (
    SELECT name, to_regclass(name) AS part FROM unnest($1::text[]) AS n (name)
    UNION ALL
    SELECT p.name, i.inhrelid::regclass FROM parts p JOIN pg_inherits i ON i.inhparent = p.part
)
SELECT p.name, sum(greatest(c.reltuples, 0))::bigint AS rows, sum(pg_total_relation_size(c.oid))::bigint AS bytes
FROM parts p JOIN pg_class c ON c.oid = p.part
WHERE c.relkind = 'r'
GROUP BY p.name
ORDER BY bytes DESC, p.name;
