-- Keeps how an endpoint does since its last success, and its failing clock. What was reported about it stays.
-- Index: the primary key. Lock: the write lock.
INSERT INTO endpoint_activity (lane, consecutive_failures, first_failure_at, last_failure_at, last_success_at,
    observed_from, observed, last_counted_at, previous_counted_at, failing_since, warned_at, owes_recovery, recovered_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (lane) DO UPDATE
SET consecutive_failures = excluded.consecutive_failures, first_failure_at = excluded.first_failure_at,
    last_failure_at = excluded.last_failure_at, last_success_at = excluded.last_success_at,
    observed_from = excluded.observed_from, observed = excluded.observed, last_counted_at = excluded.last_counted_at,
    previous_counted_at = excluded.previous_counted_at, failing_since = excluded.failing_since, warned_at = excluded.warned_at,
    owes_recovery = excluded.owes_recovery, recovered_at = excluded.recovered_at;
