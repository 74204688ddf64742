-- How many retry schedules does an organization have?
-- Index: retry_schedules_by_organization. Lock: the organization, taken by the caller.
SELECT count(*) AS count FROM retry_schedules WHERE organization_id = $1;
