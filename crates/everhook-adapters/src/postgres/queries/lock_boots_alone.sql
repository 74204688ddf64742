-- Waits until no boot is beginning, and holds up those that will. A statement of its own: the one that follows sees what was committed meanwhile.
-- Index: the primary key. Lock: the row, until the commit.
SELECT 1 FROM node_locks WHERE name = 'boots' FOR UPDATE;
