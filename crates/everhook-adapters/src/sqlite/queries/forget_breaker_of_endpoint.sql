-- Removes how the breaker of an endpoint stands.
-- Index: the primary key. Lock: the write lock.
DELETE FROM circuit_breakers WHERE endpoint_id = ?1;
