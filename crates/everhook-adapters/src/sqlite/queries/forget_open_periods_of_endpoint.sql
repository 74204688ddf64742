-- Removes the times in which the breaker of an endpoint was open.
-- Index: the primary key. Lock: the write lock.
DELETE FROM open_periods WHERE endpoint_id = ?1;
