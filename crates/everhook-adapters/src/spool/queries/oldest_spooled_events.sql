-- Which events have waited longest?
-- Index: the primary key. Lock: the write lock, which the one connection holds anyway.
SELECT position, id, organization_id, application_id, event_type, timestamp, idempotency_key, valid_since, source, priority, traceparent, labels,
    headers, only_endpoint_id, created_at, encoding, body, bytes
FROM spooled_events
ORDER BY position
LIMIT ?1;
