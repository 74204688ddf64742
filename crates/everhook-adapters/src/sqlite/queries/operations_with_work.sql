-- Which operations have something left to do, oldest first?
-- Index: operations_with_work. Lock: none, a snapshot.
SELECT id, organization_id, application_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, rate_per_second,
    priority, start_at, created_at, started_at, finished_at
FROM operations INDEXED BY operations_with_work
WHERE phase <> 'over'
ORDER BY id
LIMIT ?1;
