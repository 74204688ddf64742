-- Keeps how an endpoint does since its last success.
-- Index: the primary key. Lock: the write lock.
INSERT OR REPLACE INTO endpoint_activity (lane, consecutive_failures, first_failure_at, last_failure_at, last_success_at)
VALUES (?1, ?2, ?3, ?4, ?5);
