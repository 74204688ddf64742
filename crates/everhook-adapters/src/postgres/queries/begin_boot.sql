-- Begins the life of a node, unless a data folder is still being moved into this database.
-- Index: the primary keys. Lock: the new row; that on boots is taken by the caller before.
INSERT INTO boots (id, node, pool, worker, scheduler, good_until, seal_key_id, seals_with)
SELECT $1::uuid, $2::text, $3::text, $4::boolean, $5::boolean, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $6::bigint, $7::text, $8::text
WHERE NOT EXISTS (SELECT 1 FROM moves WHERE finished_at IS NULL);
