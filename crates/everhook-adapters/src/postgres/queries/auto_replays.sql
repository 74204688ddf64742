-- Whose dead letters come back by themselves? Few have that switched on, so that the table is walked.
-- Index: the primary key. Lock: none.
SELECT organization_id, enabled, after, requests_per_second, max_tries FROM auto_replays WHERE enabled ORDER BY organization_id;
