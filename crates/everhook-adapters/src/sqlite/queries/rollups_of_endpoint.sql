-- What happened in a lane in these stretches of minutes, hours, days, hours and minutes, and in minutes among them that hours and days have not counted?
-- Index: lanes_by_id, then the primary key and unfolded_rollups. Lock: none.
WITH stretches (span, since, until) AS (VALUES (1, ?2, ?3), (60, ?3, ?4), (1440, ?4, ?5), (60, ?5, ?6), (1, ?6, ?7))
SELECT r.successes, r.timeout, r.server_error, r.client_error, r.network, r.dns, r.tls, r.rate_limit, r.payload_too_large, r.redirect, r.blocked_address,
    r.duration_sum, r.durations, r.last_success_at, r.last_failure_at, r.answers, r.deliveries
FROM stretches s
    CROSS JOIN rollups r ON r.lane = (SELECT lane FROM lanes WHERE id = ?1) AND r.span = s.span AND r.minute >= s.since AND r.minute < s.until
UNION ALL
SELECT successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
    duration_sum, durations, last_success_at, last_failure_at, answers, deliveries
FROM rollups INDEXED BY unfolded_rollups
WHERE lane = (SELECT lane FROM lanes WHERE id = ?1) AND folded = 0 AND minute >= ?3 AND minute < ?6;
