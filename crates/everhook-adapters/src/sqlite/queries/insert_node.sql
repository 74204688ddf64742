-- Numbers a node.
-- Index: the unique key (name). Lock: the write lock.
INSERT INTO nodes (name) VALUES (?1);
