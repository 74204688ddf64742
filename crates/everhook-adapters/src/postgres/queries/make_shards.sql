-- Sees to it that a pool has its shards.
-- Index: the primary key. Lock: none but the new rows.
INSERT INTO shards (pool, number) SELECT $1, generate_series(0, $2::integer - 1) ON CONFLICT (pool, number) DO NOTHING;
