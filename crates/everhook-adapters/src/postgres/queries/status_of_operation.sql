-- How does an operation stand? It stays so until the commit.
-- Index: the primary key. Lock: the row, until the commit.
SELECT status FROM operations WHERE id = $1 FOR NO KEY UPDATE;
