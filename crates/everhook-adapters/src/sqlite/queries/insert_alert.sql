-- Keeps an alert until it is told. One that is there already was kept by a write whose answer was lost.
-- Index: the primary key. Lock: the write lock.
INSERT INTO pending_alerts (id, organization_id, event_type, data) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO NOTHING;
