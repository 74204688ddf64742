-- Which applications does an organization have between two ids, newest first (a page backward: oldest first)?
-- Index: applications_by_organization. Lock: none.
SELECT id, organization_id, uid, name, kind, created_at, strict_event_types, owner_email, base_url, health_path FROM applications
WHERE organization_id = $1 AND id > $2 AND id < $3
ORDER BY id DESC
LIMIT $4;
