-- Deletes a retry schedule.
-- Index: the primary key. Lock: the row.
DELETE FROM retry_schedules WHERE id = $2 AND organization_id = $1;
