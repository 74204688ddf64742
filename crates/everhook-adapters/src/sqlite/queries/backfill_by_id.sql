-- How does a backfill of an organization stand?
-- Index: the primary key. Lock: none, a snapshot.
SELECT id, organization_id, application_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, rate_per_second,
    priority, start_at, created_at, started_at, finished_at, chunk_outcomes
FROM operations
WHERE id = ?2 AND organization_id = ?1 AND kind = 'backfill';
