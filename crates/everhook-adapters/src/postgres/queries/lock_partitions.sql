-- Lets one node at a time make partitions.
-- Index: the primary key. Lock: the row, until the commit.
SELECT 1 FROM node_locks WHERE name = 'partitions' FOR UPDATE;
