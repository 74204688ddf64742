-- Which recoverable dead letters of an organization that died so often have been dead since an instant, at destinations that get events?
-- Endpoints, channels and processors can be gone or closed. One that is must not take the place of others in each batch.
-- Index: recoverable_dead_letters, the primary keys. Lock: none, a snapshot.
SELECT l.id, l.organization_id, l.application_id, l.event_id, l.event_type, l.endpoint_id, l.kind, l.target, l.last_delivery_id, l.status, l.cause,
    l.failure_category, l.last_error, l.attempts, l.failures, l.first_failure_at, l.last_failure_at, l.requeued_at
FROM dead_letters l INDEXED BY recoverable_dead_letters LEFT JOIN endpoints p ON p.id = l.endpoint_id
WHERE l.status = 'dead' AND l.recoverable = 1 AND l.organization_id = ?1 AND l.failures = ?2 AND l.last_failure_at <= ?3
    AND coalesce(l.requeued_at, l.last_failure_at) <= ?3 AND CASE l.kind
        WHEN 'endpoint' THEN p.state = 'enabled'
        WHEN 'channel' THEN EXISTS (SELECT 1 FROM channels c WHERE c.id = l.endpoint_id)
        WHEN 'processor' THEN EXISTS (SELECT 1 FROM sources s WHERE s.id = l.endpoint_id AND s.processor IS NOT NULL)
        ELSE 1 END
ORDER BY l.last_failure_at
LIMIT ?4;
