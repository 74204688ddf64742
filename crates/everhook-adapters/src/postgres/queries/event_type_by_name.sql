-- Which event type of an organization has this name?
-- Index: the unique one on (organization_id, name). Lock: none.
SELECT id, organization_id, name, description, schema, example, archived, created_at, updated_at
FROM event_types
WHERE organization_id = $1 AND name = $2;
