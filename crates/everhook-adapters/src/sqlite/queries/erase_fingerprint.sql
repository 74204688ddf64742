-- Removes what is kept of an event's data beside its idempotency key.
-- Index: the primary keys. Lock: the write lock.
UPDATE idempotency_keys SET fingerprint = NULL
WHERE (application_id, key) = (SELECT application_id, idempotency_key FROM events WHERE id = ?1) AND event_id = ?1;
