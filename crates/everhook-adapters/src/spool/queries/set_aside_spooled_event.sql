-- Keeps an event that the store will never take, with the reason.
-- Index: the primary key. Lock: the write lock.
INSERT INTO unforwarded
SELECT position, id, organization_id, application_id, event_type, timestamp, idempotency_key, valid_since, source, priority, traceparent, labels,
    headers, ordering_key, only_endpoint_id, created_at, content_type, source_id, external_user_id, duplicate_of, received_headers, waits_for, encoding, body, bytes, ?2, ?3
FROM spooled_events
WHERE position = ?1;
