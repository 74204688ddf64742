-- Which approvals of an organization stand so, between two ids, newest first (a page backward: oldest first)?
-- Index: approvals_by_status. Lock: none, a snapshot.
SELECT id, organization_id, application_id, capability, lane_id, request_id, cause, NULL::bytea AS call, requested_at, expires_at, status, decided_at, actor_id,
    actor_name, reason, NULL::bytea AS data, job_id, unpublished
FROM approvals
WHERE organization_id = $1 AND status = $5 AND id > $2 AND id < $3
ORDER BY id DESC
LIMIT $4;
