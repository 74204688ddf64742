-- Which endpoints fail for so long that their owners may have to be told? Those of applications `operational` do not count: an alert about them would go to them.
-- Index: failing_endpoints, then primary keys. Lock: none.
SELECT e.id, e.organization_id, a.consecutive_failures, a.first_failure_at, a.last_failure_at, a.last_success_at,
    a.observed_from, a.observed, a.last_counted_at, a.previous_counted_at, a.failing_since, a.warned_at, a.owes_recovery, a.recovered_at
FROM endpoint_activity a JOIN lanes l ON l.lane = a.lane JOIN endpoints e ON e.id = l.id
    JOIN applications p ON p.id = e.application_id
WHERE a.failing_since <= $1 AND (a.warned_at IS NULL OR a.failing_since <= $2)
    AND (a.failing_since, a.lane) > ($3, coalesce((SELECT lane FROM lanes WHERE id = $4), 0))
    AND e.state = 'enabled' AND e.paused_at IS NULL AND p.kind <> 'operational'
ORDER BY a.failing_since, a.lane
LIMIT $5;
