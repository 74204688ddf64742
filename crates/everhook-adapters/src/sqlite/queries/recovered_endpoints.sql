-- Which endpoints work again whose owners were not told of that yet?
-- Index: recovered_endpoints, then primary keys. Lock: none.
SELECT e.id, e.organization_id, a.consecutive_failures, a.first_failure_at, a.last_failure_at, a.last_success_at,
    a.observed_from, a.observed, a.last_counted_at, a.previous_counted_at, a.failing_since, a.warned_at, a.owes_recovery, a.recovered_at
FROM endpoint_activity a JOIN lanes l ON l.lane = a.lane JOIN endpoints e ON e.id = l.id
    JOIN applications p ON p.id = e.application_id
WHERE a.recovered_at IS NOT NULL AND e.state <> 'deleted' AND p.kind <> 'operational'
ORDER BY a.recovered_at
LIMIT ?1;
