-- Has some of the endpoints that follow a retry schedule follow another, and says which, and which applications they belong to.
-- `updated_at` moves on in any case, so that whoever read the endpoint before must read it again.
-- Index: endpoints_by_schedule. Lock: the write lock.
UPDATE endpoints
SET retry_schedule_id = ?3, retry_schedule = ?4, updated_at = max(updated_at + 1, ?5)
WHERE id IN (SELECT id FROM endpoints WHERE retry_schedule_id = ?2 AND organization_id = ?1 AND state <> 'deleted' LIMIT ?6)
RETURNING id, application_id;
