-- What does an event say?
-- Index: the primary keys. Lock: none, a snapshot.
SELECT e.id, e.application_id, e.event_type, e.timestamp, e.idempotency_key, e.source, e.priority, e.sequence_number, e.traceparent,
    e.created_at, p.encoding, p.body,
    x.labels, x.headers, x.ordering_key, e.content_type, r.source_id, r.external_user_id, r.duplicate_of, r.headers AS received_headers
FROM events e JOIN payloads p ON p.number = e.payload AND p.event_id = e.id LEFT JOIN event_extras x ON x.event_id = e.id
    LEFT JOIN received_events r ON r.event_id = e.id
WHERE e.id = ?1;
