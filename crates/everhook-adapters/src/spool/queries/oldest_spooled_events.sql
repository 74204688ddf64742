-- Which events of an application have waited longest?
-- Index: spooled_events_by_application, which ends with the position. Lock: the write lock, which the one connection holds anyway.
SELECT position, id, organization_id, application_id, event_type, timestamp, idempotency_key, valid_since, source, priority, traceparent, labels,
    headers, ordering_key, only_endpoint_id, created_at, content_type, source_id, external_user_id, duplicate_of, received_headers, waits_for, encoding, body, bytes
FROM spooled_events INDEXED BY spooled_events_by_application
WHERE application_id = ?1
ORDER BY position
LIMIT ?2;
