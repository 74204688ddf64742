-- Makes the dead letters of deliveries' events and endpoints, or adds another death to them. An event that is missing is dead all the same, its
-- type unknown: refusing to write that would hold up every outcome written with it.
-- Index: the unique key on lane, the primary key of events, the unique key (event_id, endpoint_id). Lock: the rows.
INSERT INTO dead_letters AS l (
    id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause,
    failure_category, last_error, attempts, failures, first_failure_at, last_failure_at, recoverable
)
SELECT d.id, p.organization_id, p.application_id, d.event_id, coalesce(e.event_type, 'unknown'), p.id, p.kind, d.target, d.id, 'dead', d.cause,
    d.failure_category, d.error, d.attempts, 1, d.at, d.at, d.recoverable
FROM unnest(
        $1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::boolean[]
    ) AS d (id, lane, event_id, target, cause, failure_category, error, attempts, at, recoverable)
    JOIN lanes p ON p.lane = d.lane
    LEFT JOIN events e ON e.id = d.event_id
ON CONFLICT (event_id, endpoint_id) DO UPDATE SET
    target = excluded.target,
    last_delivery_id = excluded.last_delivery_id,
    status = 'dead',
    cause = excluded.cause,
    failure_category = excluded.failure_category,
    last_error = excluded.last_error,
    attempts = l.attempts + excluded.attempts,
    failures = l.failures + 1,
    last_failure_at = excluded.last_failure_at,
    recoverable = excluded.recoverable;
