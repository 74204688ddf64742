-- Which jobs are next, and how large is what their apps said? A size is known without reading what it is of.
-- Index: the primary key. Lock: none.
SELECT id, CASE WHEN answer IS NULL THEN 0 ELSE 2 END AS encoding, coalesce(octet_length(answer), 0)::bigint AS bytes FROM jobs WHERE id > $1 ORDER BY id LIMIT $2;
