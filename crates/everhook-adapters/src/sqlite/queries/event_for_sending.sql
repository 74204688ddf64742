-- What does an event say?
-- Index: the primary keys. Lock: none, a snapshot.
SELECT e.id, e.application_id, e.event_type, e.timestamp, e.idempotency_key, e.source, e.priority, e.sequence_number, e.traceparent,
    e.created_at, p.encoding, p.body,
    x.labels, x.headers, x.ordering_key
FROM events e JOIN payloads p ON p.number = e.payload AND p.event_id = e.id LEFT JOIN event_extras x ON x.event_id = e.id
WHERE e.id = ?1;
