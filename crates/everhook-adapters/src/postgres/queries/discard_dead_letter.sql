-- Throws a dead letter away. It stays in history.
-- Index: the primary key. Lock: the row, until the commit.
UPDATE dead_letters SET status = 'discarded' WHERE id = $1 AND status = 'dead';
