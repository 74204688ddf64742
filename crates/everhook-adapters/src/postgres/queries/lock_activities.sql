-- How do endpoints do since their last success, before more happens?
-- Index: the primary key. Lock: the rows, in the order of the key, until the commit.
SELECT lane, consecutive_failures, first_failure_at, last_failure_at, last_success_at
FROM endpoint_activity
WHERE lane = ANY($1)
ORDER BY lane
FOR NO KEY UPDATE;
