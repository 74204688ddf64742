-- Which event has this id, and with it the idempotency key that was made for it, since an instant?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT id, deliveries, sequence_number
FROM events
WHERE id = ?2 AND application_id = ?1 AND idempotency_key IS NULL AND created_at >= ?3;
