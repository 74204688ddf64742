-- What does an event of an organization say, unless it was erased, and what became of it when it was published?
-- Index: the primary key. Lock: none.
SELECT id, application_id, event_type, timestamp, idempotency_key, source, priority, sequence_number, traceparent, deliveries, created_at,
    erased_at, encoding, body, labels, headers, ordering_key, content_type, source_id, external_user_id,
    duplicate_of, received_headers
FROM events
WHERE organization_id = $1 AND id = $2;
