-- Puts events that could not be forwarded behind those that wait, in their order. One whose key waits already stays where it is, and so does one
-- that is damaged beyond what the table takes.
-- Index: the primary key, spooled_events_by_key. Lock: the write lock.
INSERT OR IGNORE INTO spooled_events (
    id, organization_id, application_id, event_type, timestamp, idempotency_key, valid_since, source, priority, traceparent, labels, headers, ordering_key,
    only_endpoint_id, created_at, content_type, source_id, external_user_id, duplicate_of, received_headers, waits_for, encoding, body, bytes
)
SELECT id, organization_id, application_id, event_type, timestamp, idempotency_key, valid_since, source, priority, traceparent, labels, headers, ordering_key,
    only_endpoint_id, created_at, content_type, source_id, external_user_id, duplicate_of, received_headers, waits_for, encoding, body, bytes
FROM unforwarded
WHERE position > ?1 AND position <= ?2
ORDER BY position;
