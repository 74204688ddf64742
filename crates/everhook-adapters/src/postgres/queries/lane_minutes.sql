-- What happened in endpoints, capabilities, channels and applications after this minute and lane, minute by minute?
-- One after the other, so that a page costs as much as it has rows. Index: rollups_by_minute, then primary keys. Lock: none.
SELECT l.lane, l.id, l.kind, l.organization_id, l.application_id, r.minute,
    r.successes, r.timeout, r.server_error, r.client_error, r.network, r.dns, r.tls, r.rate_limit, r.payload_too_large, r.redirect, r.blocked_address,
    r.duration_sum, r.durations, r.last_success_at, r.last_failure_at, r.answers, r.deliveries
FROM (SELECT * FROM rollups WHERE span = 1 AND (minute, lane) > ($1, $2) ORDER BY minute, lane) r
    CROSS JOIN LATERAL (
        SELECT l.lane, l.id, l.kind, l.organization_id, l.application_id
        FROM lanes l JOIN applications p ON p.id = l.application_id
        WHERE l.lane = r.lane AND l.kind IN ('endpoint', 'capability', 'application', 'channel') AND (p.kind <> 'operational' OR l.kind = 'channel')
        OFFSET 0
    ) l
ORDER BY r.minute, r.lane
LIMIT $3;
