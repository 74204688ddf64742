-- Keeps what was reported about the health of an endpoint.
-- Index: the primary key. Lock: the write lock.
UPDATE endpoint_activity SET health_history = ?2 WHERE lane = ?1;
