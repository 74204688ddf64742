-- Which backfills have not ended: the oldest of every organization, then the second of each, and so on?
-- Nobody's backfills keep those of others out. Of more than 20,000, which a thousand organizations may have, the oldest are taken.
-- Index: operations_with_work. Lock: none, a snapshot.
WITH oldest AS MATERIALIZED (
    SELECT id, organization_id, application_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, rate_per_second,
        priority, start_at, created_at, started_at, finished_at, chunk_outcomes
    FROM operations INDEXED BY operations_with_work
    WHERE phase <> 'over' AND phase = 'selected' AND kind = 'backfill'
    ORDER BY id
    LIMIT 20000
)
SELECT id, organization_id, application_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, rate_per_second,
    priority, start_at, created_at, started_at, finished_at, chunk_outcomes
FROM oldest
ORDER BY row_number() OVER (PARTITION BY organization_id ORDER BY id), id
LIMIT ?1;
