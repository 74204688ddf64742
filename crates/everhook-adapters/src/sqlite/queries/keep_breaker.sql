-- Keeps how a breaker stands, if nobody changed it since.
-- Index: the primary key. Lock: the write lock.
INSERT INTO circuit_breakers (endpoint_id, revision, stage, until, since, failed_recoveries)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (endpoint_id) DO UPDATE SET
    revision = excluded.revision, stage = excluded.stage, until = excluded.until, since = excluded.since,
    failed_recoveries = excluded.failed_recoveries
WHERE revision = excluded.revision - 1;
