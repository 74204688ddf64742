-- Forgets the oldest idempotency keys that were given before an instant.
-- Index: idempotency_keys_by_age. Lock: the rows; those that somebody else holds are left for the next time.
DELETE FROM idempotency_keys
WHERE ctid = ANY (ARRAY(SELECT ctid FROM idempotency_keys WHERE created_at < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED));
