-- Fills a file with as many deliveries as `:rows` says (the test writes the number in its place), and with what goes with them: a tenth as many
-- events, each for ten endpoints, their dead letters and attempts, and long logs of changes and operations.
-- Of every fifty deliveries for an endpoint one waits, one is dead, one is held, one is a replay, and the others are delivered.

CREATE TEMP TABLE numbers (n INTEGER PRIMARY KEY);
INSERT INTO numbers WITH RECURSIVE counted (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < :rows) SELECT n FROM counted;

CREATE TEMP TABLE of_lanes (n INTEGER PRIMARY KEY, lane INTEGER, id BLOB, organization_id BLOB, application_id BLOB);
INSERT INTO of_lanes SELECT row_number() OVER (ORDER BY lane) - 1, lane, id, organization_id, application_id FROM endpoints;

INSERT INTO events (
    id, organization_id, application_id, event_type, timestamp, idempotency_key, priority, sequence_number, deliveries, first_delivery_id,
    last_delivery_id, created_at, payload
)
SELECT unhex(printf('018bcfe56800700090000000%08x', n)), organization_id, application_id, 'user.created', 1700000000000000 + n, NULL, 1, n + 1, 10,
    unhex(printf('018bcfe56800700080000000%08x', 10 * n)), unhex(printf('018bcfe56800700080000000%08x', 10 * n + 9)), 1700000000000000 + n, n + 1
FROM numbers CROSS JOIN (SELECT organization_id, application_id FROM of_lanes WHERE n = 0) WHERE n < :rows / 10;

-- All of them came through one source, which has the id of the first endpoint; every tenth is about one user.
INSERT INTO received_events (event_id, source_id, external_user_id, headers)
SELECT e.id, l.id, CASE e.sequence_number % 10 WHEN 0 THEN 'user' ELSE 'user-' || e.sequence_number END, x'5b5d'
FROM events e CROSS JOIN of_lanes l ON l.n = 0;

INSERT INTO payloads (number, event_id, encoding, body) SELECT payload, id, 0, x'7b7d' FROM events;

INSERT INTO deliveries (
    id, event_id, lane, priority, retry_schedule, stage, due_at, ended_at, cause, attempts, failure_category, replay_of, created_at, order_key,
    order_position
)
SELECT unhex(printf('018bcfe56800700080000000%08x', d.n)), unhex(printf('018bcfe56800700090000000%08x', d.n / 10)), lane, d.n / 20 % 3, 7,
    CASE d.n / 20 % 50 WHEN 0 THEN 0 WHEN 1 THEN 2 WHEN 2 THEN 4 ELSE 1 END,
    CASE d.n / 20 % 50 WHEN 0 THEN 1700000000000000 + d.n END,
    CASE WHEN d.n / 20 % 50 NOT IN (0, 2) THEN 1700000000000000 + d.n END,
    CASE d.n / 20 % 50 WHEN 1 THEN 'retries_exhausted' END,
    d.n / 20 % 50 NOT IN (0, 2),
    CASE d.n / 20 % 50 WHEN 1 THEN 'server_error' END,
    CASE d.n / 20 % 50 WHEN 3 THEN x'018bcfe5680070008000000000000000' END,
    1700000000000000 + d.n,
    CASE d.n / 20 % 50 WHEN 2 THEN 'key' END,
    CASE d.n / 20 % 50 WHEN 2 THEN d.n END
FROM numbers d CROSS JOIN of_lanes ON of_lanes.n = d.n % 20;

INSERT INTO nodes (number, name, user_agent) VALUES (1, 'node-1', 'Everhook/1');
INSERT INTO attempts (
    delivery_id, number, status, failure_category, error, duration, scheduled_at, picked_after, executed_after, node, breaker
)
SELECT id, 1, 2, 'server_error', 'it was answered 503', 1000, created_at, 0, 0, 1, 0 FROM deliveries WHERE stage = 2;

INSERT INTO dead_letters (
    id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause, failure_category, last_error,
    attempts, failures, first_failure_at, last_failure_at
)
SELECT d.id, l.organization_id, l.application_id, d.event_id, 'user.created', l.id, 'endpoint', 'https://shop.example/hooks', d.id, 'dead', d.cause,
    d.failure_category, 'it was answered 503', 1, 1, d.ended_at, d.ended_at
FROM deliveries d JOIN of_lanes l ON l.lane = d.lane WHERE d.stage = 2;

INSERT INTO audit_log (organization_id, id, at, action, resource_id, is_cut)
SELECT organization_id, unhex(printf('018bcfe568007000a0000000%08x', d.n)), 1700000000000000 + d.n, 'endpoint.update', id, 0
FROM numbers d CROSS JOIN of_lanes ON of_lanes.n = d.n % 20 WHERE d.n < :rows / 10;

INSERT INTO operations (
    id, organization_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, priority, created_at, finished_at
)
SELECT unhex(printf('018bcfe568007000b0000000%08x', d.n)), organization_id, 'replay', 'finished', '{}', 'over', zeroblob(16), 0, 0, 0, 0, 1,
    1700000000000000, 1700000000000000
FROM numbers d CROSS JOIN of_lanes ON of_lanes.n = d.n % 20 WHERE d.n < :rows / 100;

INSERT INTO operation_items (operation_id, position, lane, event_id)
SELECT x'018bcfe568007000b000000000000000', sequence_number, lane, e.id FROM events e CROSS JOIN of_lanes ON of_lanes.n = 0;
