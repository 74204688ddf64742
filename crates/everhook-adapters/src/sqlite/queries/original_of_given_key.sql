-- Which event has this idempotency key, given since an instant?
-- Index: the primary keys of idempotency_keys and events. Lock: the write lock, taken by the caller.
SELECT e.id, e.deliveries, e.sequence_number, k.fingerprint
FROM idempotency_keys k JOIN events e ON e.id = k.event_id
WHERE k.application_id = ?1 AND k.key = ?2 AND k.created_at >= ?3;
