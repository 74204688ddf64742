-- Records events.
-- Index: the primary key, events_by_organization. Lock: none but the new rows.
INSERT INTO events (
    id, organization_id, application_id, event_type, timestamp, idempotency_key, source, priority, sequence_number, traceparent, deliveries,
    first_delivery_id, last_delivery_id, created_at, encoding, body, labels, headers, ordering_key
)
SELECT * FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::smallint[], $9::bigint[], $10::text[],
    $11::integer[], $12::uuid[], $13::uuid[], $14::bigint[], $15::smallint[], $16::bytea[], $17::text[], $18::text[],
    $19::text[]
);
