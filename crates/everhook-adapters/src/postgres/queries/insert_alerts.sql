-- Keeps alerts until they are told. One that is there already was kept by a write whose answer was lost.
-- Index: the primary key. Lock: none but the new rows.
INSERT INTO pending_alerts (id, organization_id, event_type, data) SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[]) ON CONFLICT (id) DO NOTHING;
