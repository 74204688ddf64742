-- Removes how an endpoint does.
-- Index: the primary key. Lock: the write lock.
DELETE FROM endpoint_activity WHERE lane = ?1;
