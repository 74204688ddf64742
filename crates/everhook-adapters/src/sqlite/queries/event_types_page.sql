-- Which event types does an organization have between two ids, archived or not, newest first (a page backward: oldest first)?
-- Index: event_types_by_organization. Lock: none, a snapshot.
SELECT id, organization_id, name, description, schema, example, archived, created_at, updated_at
FROM event_types
WHERE organization_id = ?1 AND id > ?2 AND id < ?3 AND (?5 IS NULL OR archived = ?5)
ORDER BY id DESC
LIMIT ?4;
