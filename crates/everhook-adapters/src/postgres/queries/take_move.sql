-- Lets one process at a time move a data folder into this database: no row if another does.
-- Index: the primary key. Lock: the row, for as long as the transaction is open.
SELECT 1 FROM node_locks WHERE name = 'moves' FOR UPDATE SKIP LOCKED;
