-- Something of everything that an organization has, in every table. `:o` stands for the one hex digit by which the organizations differ, and
-- `:rows` for how many there are of each. All ids are of one day, for which there are partitions.

CREATE TEMP TABLE numbered AS
SELECT n, format('018bcfe5-6800-7000-8000-:o%s', lpad(to_hex(n), 11, '0'))::uuid AS id FROM generate_series(1, :rows) n;

INSERT INTO organizations (id, name, created_at) VALUES ('018bcfe5-6800-7000-8000-:o00000000000', 'organization :o', 1);
CREATE TEMP TABLE of_all AS SELECT id AS organization FROM organizations WHERE name = 'organization :o';

INSERT INTO applications (id, organization_id, name, kind, created_at) SELECT id, organization, 'application ' || n, 'custom', 1 FROM numbered, of_all;
INSERT INTO application_counters (application_id) SELECT id FROM numbered;
INSERT INTO schedules (definition) SELECT 'definition :o ' || n FROM numbered;
INSERT INTO retry_schedules (id, organization_id, name, version, created_at, updated_at)
SELECT id, organization, 'schedule ' || n, (SELECT version FROM schedules WHERE definition = 'definition :o ' || n), 1, 1 FROM numbered, of_all;
INSERT INTO event_types (id, organization_id, name, archived, created_at, updated_at)
SELECT id, organization, 'type.' || n, false, 1, 1 FROM numbered, of_all;
INSERT INTO sources (id, organization_id, application_id, name, kind, recipe, secrets, settings, created_at, updated_at)
SELECT id, organization, id, 'source-' || n, 'github', '{}', '[]', '{}', 1, 1 FROM numbered, of_all;
INSERT INTO manifests (application_id, organization_id, version, document, updated_at)
SELECT id, organization, 1, '{":o": 1}', 1 FROM numbered, of_all;
INSERT INTO draws (request_id, organization_id, application_id, capability, drawn_at, seed, list_hash, list_length, picked)
SELECT id, organization, id, 'winnerSelection', 1, sha256(id::text::bytea), sha256(id::text::bytea), 3, 1 FROM numbered, of_all;
INSERT INTO lanes (id, kind, organization_id, application_id) SELECT id, 'endpoint', organization, id FROM numbered, of_all;
INSERT INTO channels (id, organization_id, kind, name, retry_schedule) SELECT id, organization, 'email', n || '@:o.example', 1 FROM numbered, of_all;
INSERT INTO endpoints (
    id, organization_id, application_id, url, event_types, secret, signature_style, payload_style, headers, retry_schedule, timeout_growth_factor,
    max_concurrency, ordering, circuit_breaker, state, created_at, updated_at, revision, lane
)
SELECT id, organization, id, 'https://:o.example/', '[]', 'sealed', 'timestamped', 'envelope', '[]', 1, 1, 5, 'none', '{}', 'enabled', 1, 1, 1,
    (SELECT l.lane FROM lanes l WHERE l.id = numbered.id)
FROM numbered, of_all;
INSERT INTO endpoint_revisions (endpoint_id, number, url, headers, secret, signature_style, payload_style, made_at)
SELECT id, 1, 'https://:o.example/', '[]', 'sealed', 'timestamped', 'envelope', 1 FROM numbered;
INSERT INTO api_keys (hash, id, organization_id, name, prefix, scopes, created_at)
SELECT sha256(id::text::bytea), id, organization, 'key', 'eh_ab12', 1, 1 FROM numbered, of_all;
INSERT INTO api_key_uses (api_key_id, last_used_at) SELECT id, 1 FROM numbered;

INSERT INTO events (
    id, organization_id, application_id, event_type, timestamp, priority, sequence_number, deliveries, first_delivery_id, last_delivery_id, created_at,
    encoding, body, headers
)
SELECT id, organization, id, 'type.' || n, 1, 1, n, 1, id, id, 1, 0, '{":o": 1}', '[]' FROM numbered, of_all;
INSERT INTO idempotency_keys (application_id, key, event_id, created_at) SELECT id, 'key', id, 1 FROM numbered;

-- The first delivery is open, the others have ended.
CREATE TEMP TABLE of_lanes AS SELECT n, id, (SELECT lane FROM endpoints e WHERE e.id = numbered.id) AS lane FROM numbered;
INSERT INTO open_deliveries (lane, id, event_id, priority, stage, attempts, retry_schedule, due_at, created_at)
SELECT lane, id, id, 1, 0, 1, 1, 1, 1 FROM of_lanes WHERE n = 1;
INSERT INTO deliveries (lane, id, event_id, priority, stage, attempts, retry_schedule, ended_at, created_at)
SELECT lane, id, id, 1, 1, 1, 1, 1, 1 FROM of_lanes WHERE n > 1;
INSERT INTO made_later (event_id, lane, id) SELECT id, lane, id FROM of_lanes;
INSERT INTO attempts (delivery_id, number, status, breaker, node, duration, scheduled_at, picked_after, executed_after)
SELECT id, 1, 0, 0, 1, 1, 1, 1, 1 FROM numbered;
INSERT INTO rollups SELECT lane, 1, 1, false, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, '' FROM of_lanes;
INSERT INTO endpoint_activity (lane, consecutive_failures) SELECT lane, 0 FROM of_lanes;

INSERT INTO dead_letters (
    id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause, failure_category, last_error, attempts,
    failures, first_failure_at, last_failure_at, recoverable
)
SELECT id, organization, id, id, 'type.' || n, id, 'endpoint', 'https://:o.example/', id, 'dead', 'given_up', 'network', 'gone', 1, 1, 1, 1, true
FROM numbered, of_all;
INSERT INTO pending_alerts (id, organization_id, event_type, data) SELECT id, organization, 'circuit.opened', '{}' FROM numbered, of_all;
INSERT INTO circuit_breakers (endpoint_id, revision, stage, since, failed_recoveries) SELECT id, 1, 'closed', 1, 0 FROM numbered;
INSERT INTO open_periods (endpoint_id, opened_at) SELECT id, 1 FROM numbered;
INSERT INTO operations (
    id, organization_id, kind, status, selection, phase, selected_until, total, done, failed, skipped, priority, created_at
)
SELECT id, organization, 'replay', 'pending', '{}', 'selecting', id, 0, 0, 0, 0, 1, 1 FROM numbered, of_all;
INSERT INTO operation_items (operation_id, position, lane, event_id) SELECT id, 1, lane, id FROM of_lanes;
INSERT INTO erasure_items (operation_id, event_id) SELECT id, id FROM numbered;
INSERT INTO auto_replays (organization_id, enabled, after, requests_per_second, max_tries) SELECT organization, true, 1, 1, 1 FROM of_all;
INSERT INTO audit_log (organization_id, id, at, action, resource_id, is_cut) SELECT organization, id, 1, 'endpoint.update', id, false FROM numbered, of_all;
INSERT INTO changes (kind, id) SELECT 'endpoint', id FROM numbered;
