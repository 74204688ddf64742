-- Keeps an idempotency key. One that is kept already has expired, or it would have been found.
-- Index: the primary key. Lock: the write lock.
INSERT OR REPLACE INTO idempotency_keys (application_id, key, event_id, created_at, fingerprint) VALUES (?1, ?2, ?3, ?4, ?5);
