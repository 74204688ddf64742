-- Which recoverable dead letters of an organization that died so often have been dead since an instant, at endpoints that get events?
-- Index: recoverable_dead_letters, the primary keys. Lock: none. `OFFSET 0` keeps the order of the index. Compared as a row,
-- the time is of no use to the index by age, which is everybody's.
SELECT l.id, l.organization_id, l.application_id, l.event_id, l.event_type, l.endpoint_id, l.kind, l.target, l.last_delivery_id, l.status, l.cause,
    l.failure_category, l.last_error, l.attempts, l.failures, l.first_failure_at, l.last_failure_at, l.requeued_at
FROM dead_letters l CROSS JOIN LATERAL (SELECT state FROM endpoints WHERE id = l.endpoint_id OFFSET 0) p
WHERE l.status = 'dead' AND l.recoverable AND l.organization_id = $1 AND l.failures = $2
    AND (l.organization_id, l.failures, l.last_failure_at) <= ($1, $2, $3)
    AND coalesce(l.requeued_at, l.last_failure_at) <= $3 AND p.state = 'enabled'
ORDER BY l.last_failure_at
LIMIT $4;
