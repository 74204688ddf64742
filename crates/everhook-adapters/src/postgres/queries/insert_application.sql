-- Makes an application.
-- Index: the primary key. Lock: the row.
INSERT INTO applications (id, organization_id, uid, name, kind, created_at, strict_event_types, owner_email, base_url, health_path)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);
