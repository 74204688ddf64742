-- Replaces what can be changed of an application.
-- Index: the primary key. Lock: the row.
UPDATE applications SET uid = $3, name = $4, strict_event_types = $5, owner_email = $6, base_url = $7, health_path = $8
WHERE id = $2 AND organization_id = $1;
