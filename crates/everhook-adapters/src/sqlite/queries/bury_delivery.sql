-- Makes the dead letter of a delivery's event and endpoint, or adds another death to it. An event that is missing is dead all the same, its type
-- unknown: refusing to write that would hold up every outcome written with it.
-- Index: the primary keys of deliveries and events, the primary key of lanes, the unique key (event_id, endpoint_id). Lock: the write lock.
INSERT INTO dead_letters (
    id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause,
    failure_category, last_error, attempts, failures, first_failure_at, last_failure_at, recoverable
)
SELECT d.id, p.organization_id, p.application_id, d.event_id, coalesce(e.event_type, 'unknown'), p.id, p.kind, ?2, d.id, 'dead', ?3, ?4, ?5, ?6, 1, ?7,
    ?7, ?8
FROM deliveries d JOIN lanes p ON p.lane = d.lane LEFT JOIN events e ON e.id = d.event_id
WHERE d.id = ?1
ON CONFLICT (event_id, endpoint_id) DO UPDATE SET
    target = excluded.target,
    last_delivery_id = excluded.last_delivery_id,
    status = 'dead',
    cause = excluded.cause,
    failure_category = excluded.failure_category,
    last_error = excluded.last_error,
    attempts = attempts + excluded.attempts,
    failures = failures + 1,
    last_failure_at = excluded.last_failure_at,
    recoverable = excluded.recoverable;
