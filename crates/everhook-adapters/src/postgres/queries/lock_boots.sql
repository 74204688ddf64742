-- Holds up boots that begin: each is there for all to see before the commit, or begins after it.
-- Index: the primary key. Lock: the row, until the commit.
SELECT 1 FROM node_locks WHERE name = 'boots' FOR UPDATE;
