-- Keeps how endpoints do since their last success.
-- Index: the primary key. Lock: the rows, held by the caller.
UPDATE endpoint_activity s
SET consecutive_failures = n.consecutive_failures, first_failure_at = n.first_failure_at, last_failure_at = n.last_failure_at,
    last_success_at = n.last_success_at
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
    AS n (lane, consecutive_failures, first_failure_at, last_failure_at, last_success_at)
WHERE s.lane = n.lane;
