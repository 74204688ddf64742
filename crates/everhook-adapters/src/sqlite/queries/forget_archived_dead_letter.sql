-- Removes a dead letter that was archived, if it still failed last before an instant and is not being retried.
-- Index: the primary key. Lock: the write lock.
DELETE FROM dead_letters WHERE id = ?1 AND status <> 'retrying' AND last_failure_at < ?2;
