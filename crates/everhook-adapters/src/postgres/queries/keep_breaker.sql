-- Keeps how a breaker stands, if nobody changed it since.
-- Index: the primary key. Lock: the row, until the commit, also if it is not written.
INSERT INTO circuit_breakers AS b (endpoint_id, revision, stage, until, since, failed_recoveries)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (endpoint_id) DO UPDATE SET
    revision = excluded.revision, stage = excluded.stage, until = excluded.until, since = excluded.since,
    failed_recoveries = excluded.failed_recoveries
WHERE b.revision = excluded.revision - 1;
