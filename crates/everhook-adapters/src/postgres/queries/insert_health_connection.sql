-- Makes a connection.
-- Index: the primary key, the unique key (organization_id, provider, external_user_id, profile_id). Lock: the row.
INSERT INTO health_connections (id, organization_id, provider, external_user_id, profile_id, access_token, refresh_token, token_expires_at, permissions, is_connected, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);
