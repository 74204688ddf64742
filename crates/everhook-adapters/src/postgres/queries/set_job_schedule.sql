-- Says by which versions of retry schedules is retried what is sent to the lanes of capabilities from now on.
-- Index: lanes_by_id. Lock: the rows.
UPDATE lanes SET job_schedule = s.version
FROM unnest($1::uuid[], $2::bigint[]) AS s (id, version)
WHERE lanes.id = s.id AND lanes.job_schedule IS DISTINCT FROM s.version;
