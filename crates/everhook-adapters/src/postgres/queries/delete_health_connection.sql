-- Deletes a connection.
-- Index: the primary key. Lock: the row.
DELETE FROM health_connections WHERE id = $2 AND organization_id = $1;
