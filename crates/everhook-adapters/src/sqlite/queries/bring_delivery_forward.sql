-- Makes the next attempt of a waiting delivery due.
-- Index: the primary key; moves in waiting_by_lane. Lock: the write lock.
UPDATE deliveries SET due_at = ?2 WHERE id = ?1 AND stage = 0 AND due_at > ?2;
