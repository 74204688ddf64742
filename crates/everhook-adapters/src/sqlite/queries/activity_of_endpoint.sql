-- How does an endpoint do since its last success?
-- Index: the primary keys. Lock: none.
SELECT consecutive_failures, first_failure_at, last_failure_at, last_success_at
FROM endpoint_activity
WHERE lane = (SELECT lane FROM lanes WHERE id = ?1);
