-- How does a delivery stand?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT stage, due_at, ended_at, cause, waits_for, expires_at, expires_into, priority, attempts, replay_of, order_key IS NOT NULL AS ordered
FROM deliveries
WHERE id = ?1;
