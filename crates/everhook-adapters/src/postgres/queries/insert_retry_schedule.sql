-- Makes a retry schedule.
-- Index: the primary key. Lock: the row.
INSERT INTO retry_schedules (id, organization_id, name, version, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6);
