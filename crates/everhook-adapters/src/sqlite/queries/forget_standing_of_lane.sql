-- Removes how an endpoint does.
-- Index: the primary key. Lock: the write lock.
DELETE FROM endpoint_standing WHERE lane = ?1;
