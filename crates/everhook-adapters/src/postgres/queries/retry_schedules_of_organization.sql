-- Which retry schedules does an organization have, newest first? Their number is bounded where they are made.
-- Index: retry_schedules_by_organization. Lock: none.
SELECT r.id, r.organization_id, r.version, r.created_at, r.updated_at, s.definition
FROM retry_schedules r JOIN schedules s ON s.version = r.version
WHERE r.organization_id = $1
ORDER BY r.id DESC;
