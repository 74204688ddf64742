-- Records events.
-- Index: the primary key, events_by_organization; received_by_source and received_by_user for those of sources. Lock: none but the new rows.
INSERT INTO events (
    id, organization_id, application_id, event_type, timestamp, idempotency_key, source, priority, sequence_number, traceparent, deliveries,
    first_delivery_id, last_delivery_id, created_at, encoding, body, labels, headers, ordering_key, content_type, source_id,
    external_user_id, duplicate_of, received_headers
)
SELECT * FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::smallint[], $9::bigint[], $10::text[],
    $11::integer[], $12::uuid[], $13::uuid[], $14::bigint[], $15::smallint[], $16::bytea[], $17::text[], $18::text[],
    $19::text[], $20::text[], $21::uuid[], $22::text[], $23::uuid[], $24::bytea[]
);
