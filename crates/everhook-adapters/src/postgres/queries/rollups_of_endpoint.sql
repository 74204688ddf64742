-- What happened in a lane in these stretches of minutes, hours, days, hours and minutes, and in minutes among them that hours and days have not counted?
-- Index: lanes_by_id, then the primary key and unfolded_rollups. Lock: none.
SELECT r.successes, r.timeout, r.server_error, r.client_error, r.network, r.dns, r.tls, r.rate_limit, r.payload_too_large, r.redirect, r.blocked_address,
    r.duration_sum, r.durations, r.last_success_at, r.last_failure_at, r.answers, r.deliveries
FROM (
        VALUES (1, $2::bigint, $3::bigint), (60, $3::bigint, $4::bigint), (1440, $4::bigint, $5::bigint), (60, $5::bigint, $6::bigint), (1, $6::bigint, $7::bigint)
    ) AS s (span, since, until)
    CROSS JOIN LATERAL (
        SELECT * FROM rollups WHERE lane = (SELECT lane FROM lanes WHERE id = $1) AND span = s.span AND minute >= s.since AND minute < s.until OFFSET 0
    ) r
UNION ALL
SELECT successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
    duration_sum, durations, last_success_at, last_failure_at, answers, deliveries
FROM rollups
WHERE lane = (SELECT lane FROM lanes WHERE id = $1) AND NOT folded AND minute >= $3 AND minute < $6;
