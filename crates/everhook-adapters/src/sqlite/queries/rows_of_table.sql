-- How many rows does a table have, if there are no more than so many?
-- Index: the smallest of the table, up to the limit. Lock: none, a snapshot.
SELECT count(*) AS rows FROM (SELECT 1 FROM {table} LIMIT ?1);
