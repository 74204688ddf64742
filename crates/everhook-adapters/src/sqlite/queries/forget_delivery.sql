-- Removes a delivery. Its attempts went before.
-- Index: the primary key; leaves deliveries_by_lane and, if it was made later, made_later_by_event. Lock: the write lock.
DELETE FROM deliveries WHERE id = ?1;
