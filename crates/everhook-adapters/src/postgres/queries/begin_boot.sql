-- Begins the life of a node.
-- Index: the primary key. Lock: none but the new row.
INSERT INTO boots (id, node, worker, scheduler, good_until)
VALUES ($1, $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5);
