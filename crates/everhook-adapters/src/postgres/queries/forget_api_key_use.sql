-- Forgets when a key was last used.
-- Index: the primary key. Lock: the row.
DELETE FROM api_key_uses WHERE api_key_id = $1;
