-- How do endpoints do since their last success?
-- Index: the primary keys. Lock: none.
SELECT p.id, s.consecutive_failures, s.first_failure_at, s.last_failure_at, s.last_success_at,
    s.observed_from, s.observed, s.last_counted_at, s.previous_counted_at, s.failing_since, s.warned_at, s.owes_recovery, s.recovered_at
FROM lanes p JOIN endpoint_activity s ON s.lane = p.lane
WHERE p.id = ANY($1);
