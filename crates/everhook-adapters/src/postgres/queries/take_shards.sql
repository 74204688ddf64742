-- Takes some free shards.
-- Index: the primary key. Lock: the rows; those that another node takes at this moment are left to it.
UPDATE shards SET boot = $1
WHERE number IN (SELECT number FROM shards WHERE boot IS NULL ORDER BY number LIMIT $2 FOR UPDATE SKIP LOCKED)
RETURNING number;
