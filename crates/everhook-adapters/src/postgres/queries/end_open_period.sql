-- A breaker closed.
-- Index: the primary key. Lock: the row, held by the row of the breaker before it.
UPDATE open_periods SET closed_at = greatest(opened_at, $2)
WHERE endpoint_id = $1 AND closed_at IS NULL;
