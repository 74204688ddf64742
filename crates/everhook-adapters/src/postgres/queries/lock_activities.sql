-- How do endpoints do since their last success, before more happens?
-- Index: the primary key. Lock: the rows, in the order of the key, until the commit.
SELECT lane, consecutive_failures, first_failure_at, last_failure_at, last_success_at,
    observed_from, observed, last_counted_at, previous_counted_at, failing_since, warned_at, owes_recovery, recovered_at
FROM endpoint_activity
WHERE lane = ANY($1)
ORDER BY lane
FOR NO KEY UPDATE;
