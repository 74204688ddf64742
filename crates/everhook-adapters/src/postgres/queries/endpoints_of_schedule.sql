-- Which endpoints follow a retry schedule, and to which applications do they belong? Some of them.
-- Index: endpoints_by_schedule. Lock: the organization, taken by the caller.
SELECT id, application_id FROM endpoints
WHERE retry_schedule_id = $2 AND organization_id = $1 AND state <> 'deleted'
ORDER BY id
LIMIT $3;
