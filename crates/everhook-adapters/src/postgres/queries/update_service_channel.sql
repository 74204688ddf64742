-- Replaces a channel of a service, unless somebody changed it since it was read.
-- Index: the primary key. Lock: the row.
UPDATE channels SET name = $4, credentials = $5, event_types = $6, min_severity = $7, enabled = $8, updated_at = $9
WHERE id = $1 AND organization_id = $2 AND updated_at = $3;
