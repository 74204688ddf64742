-- Which operations of an organization are there between two ids, newest first (a page backward: oldest first)?
-- Index: operations_by_organization. Lock: none. Pairs are compared, so that no plan walks everybody's ids.
SELECT id, organization_id, application_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, rate_per_second,
    priority, start_at, created_at, started_at, finished_at
FROM operations
WHERE (organization_id, id) > ($1, $2) AND (organization_id, id) < ($1, $3)
ORDER BY organization_id DESC, id DESC
LIMIT $4;
