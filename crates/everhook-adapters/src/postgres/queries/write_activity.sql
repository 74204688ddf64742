-- Keeps how endpoints do since their last success, and their failing clocks. What was reported about them stays.
-- Index: the primary key. Lock: the rows, held by the caller.
UPDATE endpoint_activity s
SET consecutive_failures = n.consecutive_failures, first_failure_at = n.first_failure_at, last_failure_at = n.last_failure_at,
    last_success_at = n.last_success_at,
    observed_from = n.observed_from, observed = n.observed, last_counted_at = n.last_counted_at,
    previous_counted_at = n.previous_counted_at, failing_since = n.failing_since, warned_at = n.warned_at,
    owes_recovery = n.owes_recovery, recovered_at = n.recovered_at
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
        $10::bigint[], $11::bigint[], $12::boolean[], $13::bigint[])
    AS n (lane, consecutive_failures, first_failure_at, last_failure_at, last_success_at,
        observed_from, observed, last_counted_at, previous_counted_at, failing_since, warned_at, owes_recovery, recovered_at)
WHERE s.lane = n.lane;
