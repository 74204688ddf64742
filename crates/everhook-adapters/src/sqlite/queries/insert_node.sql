-- Numbers a node and its version.
-- Index: the unique key (name, user_agent). Lock: the write lock.
INSERT INTO nodes (name, user_agent) VALUES (?1, ?2);
