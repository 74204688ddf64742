-- Counts what an operation has worked off.
-- Index: the primary key. Lock: the row, until the commit.
UPDATE operations SET done = done + $2, failed = failed + $3, skipped = skipped + $4 WHERE id = $1;
