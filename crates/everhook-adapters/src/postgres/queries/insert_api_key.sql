-- Keeps an API key's record, unless the same key is kept already.
-- Index: the primary key. Lock: the row.
INSERT INTO api_keys (hash, id, organization_id, application_id, name, prefix, scopes, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (hash) DO NOTHING;
