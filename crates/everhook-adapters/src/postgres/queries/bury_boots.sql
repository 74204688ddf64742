-- Ends boots whose leases have ended, and frees what they held.
-- Index: the primary keys. Lock: the rows; waits for settlements of theirs that are under way.
WITH dead AS (
    DELETE FROM boots WHERE good_until < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AND id <> $1 RETURNING id
), freed_shards AS (
    UPDATE shards SET boot = NULL WHERE boot IN (SELECT id FROM dead)
)
UPDATE duties SET boot = NULL WHERE boot IN (SELECT id FROM dead);
