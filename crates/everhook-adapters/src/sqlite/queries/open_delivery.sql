-- How does a delivery stand?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT stage, due_at, priority, attempts, replay_of, order_key IS NOT NULL AS ordered FROM deliveries WHERE id = ?1;
