-- How many endpoints follow a retry schedule? Deleted ones do not count.
-- Index: endpoints_by_schedule. Lock: the organization, taken by the caller.
SELECT count(*) AS count FROM endpoints WHERE retry_schedule_id = $1 AND state <> 'deleted';
