-- Lets a held delivery wait.
-- Index: the primary key; enters waiting_by_lane. Lock: the write lock.
UPDATE deliveries SET stage = 0, due_at = ?2 WHERE id = ?1 AND stage = 4;
