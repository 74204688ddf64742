-- Replaces an event type, if it was not changed since it was read. Its name stays.
-- Index: the primary key. Lock: the row.
UPDATE event_types
SET description = $3, schema = $4, example = $5, archived = $6, updated_at = $7
WHERE id = $1 AND organization_id = $2 AND updated_at = $8;
