-- Which operations have something left to do, oldest first?
-- A selection walks by id, and what commits late has a low one: it does not begin before every write of events or dead letters has ended that
-- was under way when the operation began. Writes that began later hold nothing up, and neither do those of other databases.
-- Index: operations_with_work. Lock: none.
SELECT id, organization_id, application_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, rate_per_second,
    priority, start_at, created_at, started_at, finished_at
FROM operations o
WHERE phase <> 'over'
    AND (phase <> 'selecting' OR NOT EXISTS (
        SELECT 1
        FROM pg_locks writing JOIN pg_locks its ON its.pid = writing.pid
        WHERE writing.locktype = 'relation' AND writing.mode = 'RowExclusiveLock' AND writing.granted
            AND writing.relation IN ('events'::regclass, 'dead_letters'::regclass)
            AND writing.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND its.locktype = 'transactionid' AND its.mode = 'ExclusiveLock' AND its.granted
            AND age(its.transactionid) > age(o.begun_by::xid)
    ))
ORDER BY id
LIMIT $1;
