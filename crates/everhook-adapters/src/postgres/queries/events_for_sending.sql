-- What is sent of these events? Nothing of those that were erased.
-- Index: the primary key. Lock: none.
SELECT id, application_id, event_type, timestamp, idempotency_key, source, priority, sequence_number, traceparent, created_at, encoding, body,
    labels, headers
FROM events
WHERE id = ANY($1) AND erased_at IS NULL;
