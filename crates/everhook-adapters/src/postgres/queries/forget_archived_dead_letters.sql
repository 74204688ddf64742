-- Removes dead letters that were archived, if they still failed last before an instant and are not being retried.
-- Index: the primary key. Lock: the rows.
DELETE FROM dead_letters WHERE id = ANY ($1::uuid[]) AND status <> 'retrying' AND last_failure_at < $2;
