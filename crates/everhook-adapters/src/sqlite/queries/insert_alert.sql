-- Keeps an alert until it is told.
-- Index: the primary key. Lock: the write lock.
INSERT INTO pending_alerts (id, organization_id, event_type, data) VALUES (?1, ?2, ?3, ?4);
