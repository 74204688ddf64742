-- How does an endpoint do since its last success?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT consecutive_failures, first_failure_at, last_failure_at, last_success_at,
    observed_from, observed, last_counted_at, previous_counted_at, failing_since, warned_at, owes_recovery, recovered_at
FROM endpoint_activity WHERE lane = ?1;
