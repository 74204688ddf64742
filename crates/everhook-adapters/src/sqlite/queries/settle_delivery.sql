-- Moves a delivery on, if it waits for this attempt as its next.
-- Index: the primary key; leaves or moves within waiting_by_lane. Lock: the write lock.
UPDATE deliveries SET stage = ?3, due_at = ?4, ended_at = ?5, cause = ?6, attempts = ?2, failure_category = ?7, expires_into = NULL
WHERE id = ?1 AND stage = 0 AND attempts = ?2 - 1;
