-- What happened at an endpoint in one minute?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
    duration_sum, durations, last_success_at, last_failure_at, answers
FROM rollups
WHERE lane = ?1 AND minute = ?2;
