-- Removes the oldest dead letters that failed last before an instant and are not being retried.
-- Index: dead_letters_by_age. Lock: the write lock.
DELETE FROM dead_letters
WHERE id IN (
    SELECT id FROM dead_letters INDEXED BY dead_letters_by_age
    WHERE status <> 'retrying' AND last_failure_at < ?1
    ORDER BY last_failure_at
    LIMIT ?2
);
