-- Lets a parked delivery wait, and says what becomes of it if the time for what it waited for is over.
-- Index: the primary key; enters waiting_by_lane, leaves the indexes of what is parked. Lock: the write lock.
UPDATE deliveries SET stage = 0, due_at = ?2, parked_organization_id = NULL, waits_for = NULL, expires_at = NULL, expires_into = ?3
WHERE id = ?1 AND stage = 5;
