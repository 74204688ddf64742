-- Keeps the refreshed tokens of a connection.
-- Index: the primary key. Lock: the row.
UPDATE health_connections SET reauthorization_needed_since = NULL, access_token = $2, refresh_token = $3, token_expires_at = $4, updated_at = $5
WHERE id = $1 AND is_connected;
