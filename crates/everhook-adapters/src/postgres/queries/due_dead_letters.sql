-- Which recoverable dead letters of an organization that died so often have been dead since an instant, at destinations that get events?
-- Endpoints, channels and processors can be gone or closed. One that is must not take the place of others in each batch.
-- Index: recoverable_dead_letters, the primary keys. Lock: none. `OFFSET 0` keeps the order of the index. Compared as a row,
-- the time is of no use to the index by age, which is everybody's.
SELECT l.id, l.organization_id, l.application_id, l.event_id, l.event_type, l.endpoint_id, l.kind, l.target, l.last_delivery_id, l.status, l.cause,
    l.failure_category, l.last_error, l.attempts, l.failures, l.first_failure_at, l.last_failure_at, l.requeued_at
FROM dead_letters l LEFT JOIN LATERAL (SELECT state FROM endpoints WHERE id = l.endpoint_id OFFSET 0) p ON true
WHERE l.status = 'dead' AND l.recoverable AND l.organization_id = $1 AND l.failures = $2
    AND (l.organization_id, l.failures, l.last_failure_at) <= ($1, $2, $3)
    AND coalesce(l.requeued_at, l.last_failure_at) <= $3 AND CASE l.kind
        WHEN 'endpoint' THEN p.state = 'enabled'
        WHEN 'channel' THEN EXISTS (SELECT 1 FROM channels c WHERE c.id = l.endpoint_id)
        WHEN 'processor' THEN EXISTS (SELECT 1 FROM sources s WHERE s.id = l.endpoint_id AND s.processor IS NOT NULL)
        ELSE true END
ORDER BY l.last_failure_at
LIMIT $4;
