-- Makes a channel of a service.
-- Index: the primary key, the unique key (organization_id, name). Lock: the write lock.
INSERT INTO channels (id, organization_id, kind, name, retry_schedule, credentials, event_types, min_severity, enabled, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);
