-- What happened in a lane in each of these minutes, the last not included?
-- Index: the primary key. Lock: none.
SELECT minute, successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
    duration_sum, durations, last_success_at, last_failure_at, answers, deliveries
FROM rollups
WHERE lane = (SELECT lane FROM lanes WHERE id = $1) AND span = 1 AND minute >= $2 AND minute < $3
ORDER BY lane, span, minute;
