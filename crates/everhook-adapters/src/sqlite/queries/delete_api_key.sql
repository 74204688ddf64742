-- Revokes a key.
-- Index: the unique key (id). Lock: the write lock.
DELETE FROM api_keys WHERE organization_id = ?1 AND id = ?2;
