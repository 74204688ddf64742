-- Begins a connection anew. Whoever refreshes the tokens that it had keeps nothing.
-- Index: the primary key. Lock: the write lock.
UPDATE health_connections
SET access_token = ?2, refresh_token = ?3, token_expires_at = ?4, permissions = ?5, is_connected = ?6, updated_at = ?7, refreshing_by = NULL, refreshing_until = NULL,
    reauthorization_needed_since = NULL
WHERE id = ?1;
