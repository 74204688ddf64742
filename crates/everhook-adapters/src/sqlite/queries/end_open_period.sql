-- A breaker closed.
-- Index: the primary key. Lock: the write lock.
UPDATE open_periods SET closed_at = max(opened_at, ?2)
WHERE endpoint_id = ?1 AND closed_at IS NULL;
