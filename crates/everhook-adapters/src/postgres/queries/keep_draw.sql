-- Keeps a draw, unless the call has one.
-- Index: the primary key. Lock: the row.
INSERT INTO draws (request_id, organization_id, application_id, capability, drawn_at, seed, list_hash, list_length, picked)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (request_id) DO NOTHING;
