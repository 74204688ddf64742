-- Records an event; nothing if it is recorded already.
-- Index: the primary key. Lock: the write lock.
INSERT INTO events (
    id, organization_id, application_id, event_type, timestamp, idempotency_key, source, priority, sequence_number, traceparent,
    deliveries, first_delivery_id, last_delivery_id, created_at, payload, content_type
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
ON CONFLICT (id) DO NOTHING;
