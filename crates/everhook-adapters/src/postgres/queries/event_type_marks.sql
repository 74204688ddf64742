-- What must publishing know of an organization's event types? Their number is bounded where they are made.
-- Index: event_types_by_organization. Lock: none.
SELECT id, name, archived, schema IS NOT NULL AS has_schema, updated_at FROM event_types WHERE organization_id = $1;
