-- Keeps a call that waits for a person. One that is there stays as it is.
-- Index: the primary key. Lock: the write lock.
INSERT INTO approvals (id, organization_id, application_id, capability, lane_id, request_id, cause, call, requested_at, expires_at, status)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'pending')
ON CONFLICT (id) DO NOTHING;
