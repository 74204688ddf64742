-- Begins the life of a node, unless a data folder is still being moved into this database.
-- Index: the primary keys. Lock: the pools, shared, against an organization that goes from one to another at this moment; the new row.
WITH pools AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(2, 0)
)
INSERT INTO boots (id, node, pool, worker, scheduler, good_until)
SELECT $1::uuid, $2::text, $3::text, $4::boolean, $5::boolean, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $6::bigint
FROM pools
WHERE NOT EXISTS (SELECT 1 FROM moves WHERE finished_at IS NULL);
