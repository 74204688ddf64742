-- Takes some shards of a pool that nobody holds, or a boot that is over.
-- Index: the primary keys. Lock: the rows; those that another node takes at this moment are left to it.
UPDATE shards SET boot = $1
WHERE pool = $3 AND number IN (
    SELECT number FROM shards s
    WHERE s.pool = $3 AND (s.boot IS NULL OR NOT EXISTS (SELECT 1 FROM boots b WHERE b.id = s.boot))
    ORDER BY number
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
RETURNING number;
