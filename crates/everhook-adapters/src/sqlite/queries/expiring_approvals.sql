-- Whose time is over first of those that wait?
-- Index: approvals_expiring. Lock: none.
SELECT id, organization_id, application_id, capability, lane_id, request_id, cause, NULL AS call, requested_at, expires_at, status, decided_at, actor_id,
    actor_name, reason, NULL AS data, job_id, unpublished
FROM approvals WHERE decided_at IS NULL ORDER BY expires_at, id LIMIT ?1;
