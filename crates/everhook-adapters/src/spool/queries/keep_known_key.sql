-- Keeps a key, or what has changed of it.
-- Index: the primary key. Lock: the write lock.
INSERT OR REPLACE INTO known_keys (hash, id, organization_id, application_id, name, prefix, scopes, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);
