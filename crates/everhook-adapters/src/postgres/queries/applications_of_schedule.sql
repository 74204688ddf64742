-- Which applications have an endpoint that follows a retry schedule?
-- Index: endpoints_by_schedule. Lock: the organization, taken by the caller.
SELECT DISTINCT application_id FROM endpoints WHERE retry_schedule_id = $1 AND state <> 'deleted';
