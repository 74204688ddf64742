-- Ends an operation; one that still selects is not finished.
-- Index: the primary key. Lock: the row, until the commit.
UPDATE operations SET status = $2, phase = $3, finished_at = $4 WHERE id = $1 AND NOT ($2 = 'finished' AND phase = 'selecting');
