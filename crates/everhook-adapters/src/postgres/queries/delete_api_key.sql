-- Revokes a key.
-- Index: the unique key (id). Lock: the row.
DELETE FROM api_keys WHERE organization_id = $1 AND id = $2;
