-- Forgets the idempotency key that an event was published under.
-- Index: the primary key. Lock: the write lock.
DELETE FROM idempotency_keys WHERE application_id = ?1 AND key = ?2 AND event_id = ?3;
