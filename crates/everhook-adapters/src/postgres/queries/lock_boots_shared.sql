-- Waits until nobody holds up boots that begin. A statement of its own: the one that follows sees what was committed meanwhile.
-- Index: the primary key. Lock: the row, shared, until the commit.
SELECT 1 FROM node_locks WHERE name = 'boots' FOR SHARE;
