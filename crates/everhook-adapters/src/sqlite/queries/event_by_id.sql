-- What does an event of an organization say, unless it was erased, and what became of it when it was published?
-- Index: the primary keys. Lock: none, a snapshot.
SELECT e.id, e.application_id, e.event_type, e.timestamp, e.idempotency_key, e.source, e.priority, e.sequence_number, e.traceparent,
    e.deliveries, e.created_at, e.erased_at, p.encoding, p.body,
    x.labels, x.headers, x.ordering_key, e.content_type, r.source_id, r.external_user_id, r.duplicate_of, r.headers AS received_headers
FROM events e LEFT JOIN payloads p ON p.number = e.payload AND p.event_id = e.id LEFT JOIN event_extras x ON x.event_id = e.id
    LEFT JOIN received_events r ON r.event_id = e.id
WHERE e.organization_id = ?1 AND e.id = ?2 AND (p.number IS NOT NULL OR e.erased_at IS NOT NULL);
