-- Notes that an operation is working.
-- Index: the primary key. Lock: the row.
UPDATE operations SET status = 'running', started_at = coalesce(started_at, $2) WHERE id = $1 AND phase = 'selected';
