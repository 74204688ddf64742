-- What happened in endpoints, capabilities, channels and applications after this minute and lane, minute by minute?
-- Index: rollups_by_minute, then primary keys. Lock: none, a snapshot.
SELECT l.lane, l.id, l.kind, l.organization_id, l.application_id, r.minute,
    r.successes, r.timeout, r.server_error, r.client_error, r.network, r.dns, r.tls, r.rate_limit, r.payload_too_large, r.redirect, r.blocked_address,
    r.duration_sum, r.durations, r.last_success_at, r.last_failure_at, r.answers, r.deliveries
FROM rollups r INDEXED BY rollups_by_minute
    CROSS JOIN lanes l ON l.lane = r.lane
    CROSS JOIN applications p ON p.id = l.application_id
WHERE r.span = 1 AND (r.minute, r.lane) > (?1, ?2) AND l.kind IN ('endpoint', 'capability', 'application', 'channel') AND (p.kind <> 'operational' OR l.kind = 'channel')
ORDER BY r.minute, r.lane
LIMIT ?3;
