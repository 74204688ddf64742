-- A thousand lanes with five deliveries that wait in each, made in the last hour of the 28 days that `ended_rows.sql` fills.

CREATE FUNCTION numbered(kind text, millisecond bigint, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE RETURN (
    lpad(to_hex(1700000000000 + millisecond), 12, '0') || '7000' || kind || lpad(to_hex(n), 12, '0')
)::uuid;

INSERT INTO lanes (id, kind, organization_id, application_id) SELECT numbered('e000', 0, n), 'endpoint', organization_id, application_id FROM generate_series(2, 1000) n, endpoints;
INSERT INTO endpoints (
    id, organization_id, application_id, url, event_types, secret, signature_style, payload_style, headers, retry_schedule, timeout_growth_factor,
    max_concurrency, ordering, circuit_breaker, state, created_at, updated_at, revision, lane
)
SELECT numbered('e000', 0, n), organization_id, application_id, url, event_types, secret, signature_style, payload_style, headers, retry_schedule,
    timeout_growth_factor, max_concurrency, ordering, circuit_breaker, state, created_at, updated_at, revision,
    (SELECT l.lane FROM lanes l WHERE l.id = numbered('e000', 0, n))
FROM generate_series(2, 1000) n, endpoints;

INSERT INTO events (
    id, organization_id, application_id, event_type, timestamp, priority, sequence_number, deliveries, first_delivery_id, last_delivery_id,
    created_at, encoding, body
)
SELECT numbered('9000', 2415600000 + n, 1000000000 + n), organization_id, application_id, 'user.created', 1, 1, n, 1,
    numbered('8000', 2415600000 + n, 1000000000 + n), numbered('8000', 2415600000 + n, 1000000000 + n), 1, 0, convert_to(repeat('x', 200), 'UTF8')
FROM generate_series(0, 4999) n, (SELECT organization_id, application_id FROM endpoints WHERE lane = 1) o;

INSERT INTO open_deliveries (lane, id, event_id, priority, stage, attempts, retry_schedule, due_at, created_at)
SELECT n % 1000 + 1, numbered('8000', 2415600000 + n, 1000000000 + n), numbered('9000', 2415600000 + n, 1000000000 + n), 1, 0, 0, 1, n, 1
FROM generate_series(0, 4999) n;
