-- How do breakers stand that were ever other than closed?
-- Index: the primary key, walked whole: once, when a node starts. Lock: none.
SELECT endpoint_id, revision, stage, until, since, failed_recoveries FROM circuit_breakers ORDER BY endpoint_id;
