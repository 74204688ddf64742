-- How many endpoints follow a retry schedule? Deleted ones do not count.
-- Index: endpoints_by_schedule. Lock: the write lock, taken by the caller.
SELECT count(*) FROM endpoints WHERE retry_schedule_id = ?1 AND state <> 'deleted';
