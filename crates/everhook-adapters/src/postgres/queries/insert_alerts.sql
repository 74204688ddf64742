-- Keeps alerts until they are told.
-- Index: the primary key. Lock: none but the new rows.
INSERT INTO pending_alerts (id, organization_id, event_type, data) SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[]);
