-- Which versions of an organization's retry schedules are in force? Their number is bounded where they are created.
-- Index: retry_schedules_by_organization. Lock: none, a snapshot.
SELECT id, version FROM retry_schedules WHERE organization_id = ?1;
