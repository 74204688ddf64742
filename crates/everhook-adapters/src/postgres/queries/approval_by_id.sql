-- How does an approval of an organization stand, with what is sealed?
-- Index: the primary key. Lock: none.
SELECT id, organization_id, application_id, capability, lane_id, request_id, cause, call, requested_at, expires_at, status, decided_at, actor_id,
    actor_name, reason, data, job_id, unpublished
FROM approvals WHERE id = $1 AND organization_id = $2;
