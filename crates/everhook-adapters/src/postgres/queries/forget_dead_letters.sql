-- Removes the oldest dead letters that failed last before an instant and are not being retried.
-- Index: dead_letters_by_age. Lock: the rows; those that somebody else holds are left for the next time.
DELETE FROM dead_letters
WHERE id IN (
    SELECT id FROM dead_letters WHERE status <> 'retrying' AND last_failure_at < $1 ORDER BY last_failure_at LIMIT $2 FOR UPDATE SKIP LOCKED
);
