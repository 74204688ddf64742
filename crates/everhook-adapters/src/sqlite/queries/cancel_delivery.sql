-- Cancels a delivery that waits or is held.
-- Index: the primary key; leaves waiting_by_lane and open_in_order. Lock: the write lock.
UPDATE deliveries SET stage = 3, due_at = NULL, ended_at = ?2, cause = ?3 WHERE id = ?1 AND stage IN (0, 4);
