-- Which decisions behind an approval have an event that is not published yet, oldest first?
-- Index: approvals_unpublished. Lock: none.
SELECT id, organization_id, application_id, capability, lane_id, request_id, cause, call, requested_at, expires_at, status, decided_at, actor_id,
    actor_name, reason, data, job_id, unpublished
FROM approvals WHERE unpublished IS NOT NULL AND id > $1 ORDER BY id LIMIT $2;
