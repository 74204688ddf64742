-- Replaces an organization's name, uid, limits and pool.
-- Index: the primary key, the unique key (uid). Lock: the row.
UPDATE organizations SET uid = $2, name = $3, limits = $4, worker_pool = $5, moves = moves + (worker_pool <> $5)::integer WHERE id = $1;
