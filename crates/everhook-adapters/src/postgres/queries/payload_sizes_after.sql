-- Which events are next, how is their data kept, and how large is it? A size is known without reading what it is of.
-- Index: the primary keys of the partitions, merged. Lock: none.
SELECT id, encoding, coalesce(octet_length(body), 0)::bigint AS bytes FROM events WHERE id > $1 ORDER BY id LIMIT $2;
