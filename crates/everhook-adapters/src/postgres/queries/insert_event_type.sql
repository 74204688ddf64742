-- Makes an event type.
-- Index: the primary key. Lock: the row.
INSERT INTO event_types (id, organization_id, name, description, schema, example, archived, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);
