-- When did the oldest dead letter fail last that is not being retried?
-- Index: dead_letters_by_age. Lock: none, a snapshot.
SELECT last_failure_at FROM dead_letters WHERE status <> 'retrying' ORDER BY last_failure_at LIMIT 1;
