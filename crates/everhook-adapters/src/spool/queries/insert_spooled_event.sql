-- Puts an event behind those that wait.
-- Index: the primary key, spooled_events_by_key. Lock: the write lock.
INSERT INTO spooled_events (
    id, organization_id, application_id, event_type, timestamp, idempotency_key, valid_since, source, priority, traceparent, labels, headers, ordering_key,
    only_endpoint_id, created_at, content_type, source_id, external_user_id, duplicate_of, received_headers, waits_for, encoding, body, bytes
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
    ?22, ?23, ?24);
