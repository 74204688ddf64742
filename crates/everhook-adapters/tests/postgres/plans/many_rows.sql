-- Fills a database with as many deliveries as `:rows` says (the test writes the number in its place), spread over `:lanes` endpoints and three days,
-- and with what goes with them: a tenth as many events, each for ten endpoints, their dead letters and attempts, keys, statistics, and long logs of
-- changes and operations. Of every fifty deliveries for an endpoint one waits, one is dead, one is held, one is a replay, and the others are
-- delivered. Beside the organization that has all that there are others, with endpoints that have nothing.

-- The id of a kind of thing that belongs to a delivery's number: they are of the same millisecond.
CREATE FUNCTION numbered(kind text, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE RETURN (
    lpad(to_hex(1700000000000 + n * 216000000 / :rows), 12, '0') || '7000' || kind || lpad(to_hex(n), 12, '0')
)::uuid;

CREATE TEMP TABLE of_lanes AS
SELECT row_number() OVER (ORDER BY lane) - 1 AS n, lane, id, organization_id, application_id FROM endpoints;
CREATE TEMP TABLE first_lane AS SELECT * FROM of_lanes WHERE n = 0;

INSERT INTO events (
    id, organization_id, application_id, event_type, timestamp, priority, sequence_number, deliveries, first_delivery_id, last_delivery_id,
    created_at, encoding, body, source_id, external_user_id, received_headers
)
SELECT numbered('9000', 10 * n), organization_id, application_id, 'user.created', 1700000000000000 + n, 1, n + 1, 10, numbered('8000', 10 * n),
    numbered('8000', 10 * n + 9), 1700000000000000 + n, 0, '{}',
    id, CASE n % 10 WHEN 0 THEN 'user' ELSE 'user-' || n END, '[]'
FROM generate_series(0, :rows / 10 - 1) n, (SELECT id, organization_id, application_id FROM first_lane) o;

INSERT INTO idempotency_keys (application_id, key, event_id, created_at)
SELECT application_id, 'key-' || sequence_number, id, created_at FROM events;

INSERT INTO open_deliveries (
    lane, id, event_id, priority, stage, attempts, retry_schedule, due_at, created_at, order_key, order_position
)
SELECT lane, numbered('8000', d), numbered('9000', d / 10 * 10), d / :lanes % 3, d / :lanes % 50 * 2, 0, 7,
    CASE d / :lanes % 50 WHEN 0 THEN 1700000000000000 + d END, 1700000000000000 + d,
    CASE d / :lanes % 50 WHEN 2 THEN 'key-' || d % 200 END, CASE d / :lanes % 50 WHEN 2 THEN d END
FROM generate_series(0, :rows - 1) d JOIN of_lanes ON n = d % :lanes
WHERE d / :lanes % 50 IN (0, 2);

INSERT INTO deliveries (
    lane, id, event_id, priority, stage, attempts, retry_schedule, ended_at, created_at, cause, failure_category, replay_of
)
SELECT lane, numbered('8000', d), numbered('9000', d / 10 * 10), d / :lanes % 3, CASE d / :lanes % 50 WHEN 1 THEN 2 ELSE 1 END, 1, 7,
    1700000000000000 + d, 1700000000000000 + d, CASE d / :lanes % 50 WHEN 1 THEN 'retries_exhausted' END,
    CASE d / :lanes % 50 WHEN 1 THEN 'server_error' END, CASE d / :lanes % 50 WHEN 3 THEN numbered('8000', 0) END
FROM generate_series(0, :rows - 1) d JOIN of_lanes ON n = d % :lanes
WHERE d / :lanes % 50 NOT IN (0, 2);

INSERT INTO made_later (event_id, lane, id) SELECT event_id, lane, id FROM deliveries WHERE replay_of IS NOT NULL;

INSERT INTO nodes (name, user_agent) VALUES ('node-1', 'Everhook/1');
INSERT INTO attempts (delivery_id, number, status, failure_category, error, duration, scheduled_at, picked_after, executed_after, node, breaker)
SELECT id, 1, 2, 'server_error', 'it was answered 503', 1000, created_at, 0, 0, 1, 0 FROM deliveries WHERE stage = 2;

INSERT INTO dead_letters (
    id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause, failure_category, last_error,
    attempts, failures, first_failure_at, last_failure_at, recoverable
)
SELECT d.id, l.organization_id, l.application_id, d.event_id, 'user.created', l.id, 'endpoint', 'https://shop.example/hooks', d.id, 'dead', d.cause,
    d.failure_category, 'it was answered 503', 1, 1, d.ended_at, d.ended_at, true
FROM deliveries d JOIN of_lanes l ON l.lane = d.lane WHERE d.stage = 2;

INSERT INTO rollups
SELECT lane, 1, minute, minute < 28333333 + :rows / 200, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, '', NULL, NULL, '', ''
FROM of_lanes, generate_series(28333333, 28333333 + :rows / 200) minute;
INSERT INTO rollups
SELECT lane, 60, minute - minute % 60, true, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, '', NULL, NULL, '', ''
FROM of_lanes, generate_series(28333333, 28333333 + :rows / 200, 60) minute;

INSERT INTO source_rollups
SELECT id, minute, 1, 0, '{}', '{}', 1, '' FROM of_lanes, generate_series(28333333, 28333333 + :rows / 200) minute;

INSERT INTO audit_log (organization_id, id, at, action, resource_id, is_cut)
SELECT organization_id, numbered('a000', 10 * d), 1700000000000000 + d, 'endpoint.update', id, false
FROM generate_series(0, :rows / 10 - 1) d JOIN of_lanes ON n = d % :lanes;

INSERT INTO operations (
    id, organization_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, priority, created_at, finished_at
)
SELECT numbered('b000', 100 * n), organization_id, 'replay', 'finished', '{}', 'over', id, 0, 0, 0, 0, 1, 1700000000000000, 1700000000000000
FROM generate_series(0, :rows / 100 - 1) n, (SELECT id, organization_id FROM first_lane) o;

INSERT INTO operation_items (operation_id, position, lane, event_id)
SELECT numbered('b000', 0), sequence_number, lane, events.id FROM events, first_lane;
INSERT INTO erasure_items (operation_id, event_id) SELECT numbered('b000', 0), id FROM events;

INSERT INTO changes (kind, id) SELECT 'endpoint', numbered('c000', n) FROM generate_series(0, :rows / 100) n;
INSERT INTO pending_alerts (id, organization_id, event_type, data)
SELECT numbered('d000', d), organization_id, 'circuit.opened', '{}' FROM generate_series(0, :rows / 100) d, first_lane;

INSERT INTO lanes (id, kind, organization_id, application_id) SELECT numbered('e000', n), 'endpoint', numbered('f000', n / 10), numbered('f000', n / 10) FROM generate_series(0, :rows / 100) n;
INSERT INTO endpoints (
    id, organization_id, application_id, url, event_types, secret, signature_style, payload_style, headers, retry_schedule, timeout_growth_factor,
    max_concurrency, ordering, circuit_breaker, state, created_at, updated_at, revision, lane
)
SELECT numbered('e000', n), numbered('f000', n / 10), numbered('f000', n / 10), 'https://shop.example/', '[]', 'sealed', 'timestamped', 'envelope', '[]',
    1, 1, 5, 'none', '{}', 'enabled', 1, 1, 1, (SELECT l.lane FROM lanes l WHERE l.id = numbered('e000', n))
FROM generate_series(0, :rows / 100) n;

-- Metrics of a hundred profiles: with none, every index is as good as another.
INSERT INTO health_metrics (id, organization_id, profile_id, provider, metric_type, start_at, end_at, value, record_id, dedupe_hash, created_at, updated_at)
SELECT gen_random_uuid(), o.organization_id, 'profile' || n % 100, 'garmin', 'steps', n, n, 1, 'record' || n, sha256(n::text::bytea), 0, 0
FROM generate_series(0, 4999) n, (SELECT organization_id FROM first_lane) o;
