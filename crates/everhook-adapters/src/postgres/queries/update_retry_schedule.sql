-- Replaces a retry schedule's name and version, if it was not changed since it was read.
-- Index: the primary key. Lock: the row.
UPDATE retry_schedules SET name = $3, version = $4, updated_at = $5 WHERE id = $1 AND organization_id = $2 AND updated_at = $6;
