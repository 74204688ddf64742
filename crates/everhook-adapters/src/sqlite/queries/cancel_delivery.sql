-- Cancels a delivery that waits.
-- Index: the primary key; leaves waiting_by_lane. Lock: the write lock.
UPDATE deliveries SET stage = 3, due_at = NULL, ended_at = ?2, cause = ?3 WHERE id = ?1 AND stage = 0;
