-- Which dead letters failed last before an instant and are not being retried, the oldest first?
-- Index: dead_letters_by_age. Lock: none, a snapshot.
SELECT id, organization_id FROM dead_letters INDEXED BY dead_letters_by_age
WHERE status <> 'retrying' AND last_failure_at < ?1
ORDER BY last_failure_at
LIMIT ?2;
