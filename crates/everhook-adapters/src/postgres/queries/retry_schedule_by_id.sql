-- Which retry schedule of an organization has this id?
-- Index: the primary keys. Lock: none.
SELECT r.id, r.organization_id, r.version, r.created_at, r.updated_at, s.definition
FROM retry_schedules r JOIN schedules s ON s.version = r.version
WHERE r.organization_id = $1 AND r.id = $2;
