-- How many retry schedules does an organization have?
-- Index: retry_schedules_by_organization. Lock: the write lock, taken by the caller.
SELECT count(*) FROM retry_schedules WHERE organization_id = ?1;
