-- Notes which of some versions have come out of use by an instant, or into use again.
-- Index: the primary key, endpoints_by_version, retry_schedules_by_version, channels_by_version, sources_by_version, lanes_by_version. Lock: the write lock.
UPDATE schedules SET unused_since = CASE WHEN unused_since IS NULL THEN ?3 END
WHERE version > ?1 AND version <= ?2 AND (unused_since IS NOT NULL) = (
    EXISTS (SELECT 1 FROM endpoints e WHERE e.retry_schedule = schedules.version)
    OR EXISTS (SELECT 1 FROM retry_schedules r WHERE r.version = schedules.version)
    OR EXISTS (SELECT 1 FROM channels c WHERE c.retry_schedule = schedules.version)
    OR EXISTS (SELECT 1 FROM sources s WHERE s.processor_schedule = schedules.version)
    OR EXISTS (SELECT 1 FROM lanes l WHERE l.job_schedule = schedules.version)
);
