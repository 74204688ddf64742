-- How does an endpoint's breaker stand?
-- Index: the primary key. Lock: none.
SELECT endpoint_id, revision, stage, until, since, failed_recoveries FROM circuit_breakers WHERE endpoint_id = $1;
