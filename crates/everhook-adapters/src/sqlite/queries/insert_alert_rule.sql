-- Writes a new alert rule, unless the organization has one of that name.
-- Index: the primary key. Lock: the write lock.
INSERT INTO alert_rules (id, organization_id, name, definition, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING;
