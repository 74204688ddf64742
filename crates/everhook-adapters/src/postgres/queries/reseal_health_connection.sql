-- Replaces the tokens of a connection by the same, sealed otherwise, unless somebody changed them.
-- Index: the primary key. Lock: the row.
UPDATE health_connections SET access_token = $2, refresh_token = $3
WHERE id = $1 AND access_token = $4 AND refresh_token IS NOT DISTINCT FROM $5;
