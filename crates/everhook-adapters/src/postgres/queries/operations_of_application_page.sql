-- Which operations are about one application alone between two ids, newest first (a page backward: oldest first)?
-- Index: operations_by_application. Lock: none.
SELECT id, organization_id, application_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, rate_per_second,
    priority, start_at, created_at, started_at, finished_at
FROM operations
WHERE organization_id = $1 AND application_id = $5 AND id > $2 AND id < $3
ORDER BY id DESC
LIMIT $4;
