-- Deletes the retry schedules of a deleted organization: at most 200.
-- Index: retry_schedules_by_organization. Lock: the write lock.
DELETE FROM retry_schedules WHERE organization_id = ?1;
