-- Which approvals are next, and how large is what is sealed of them? A size is known without reading what it is of.
-- Index: the primary key. Lock: none.
SELECT id, CASE WHEN call IS NULL AND data IS NULL THEN 0 ELSE 2 END AS encoding,
    (coalesce(octet_length(call), 0) + coalesce(octet_length(data), 0))::bigint AS bytes
FROM approvals WHERE id > $1 ORDER BY id LIMIT $2;
