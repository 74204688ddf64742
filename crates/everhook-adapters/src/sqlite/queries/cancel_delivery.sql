-- Cancels a delivery that waits, is held or parked.
-- Index: the primary key; leaves waiting_by_lane, open_in_order and the indexes of what is parked. Lock: the write lock.
UPDATE deliveries SET stage = 3, due_at = NULL, ended_at = ?2, cause = ?3, parked_organization_id = NULL, waits_for = NULL, expires_at = NULL,
    expires_into = NULL
WHERE id = ?1 AND stage IN (0, 4, 5);
