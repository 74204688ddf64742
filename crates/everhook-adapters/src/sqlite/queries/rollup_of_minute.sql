-- What happened in a lane in one minute, hour or day, and have longer ones counted it?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT folded, successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
    duration_sum, durations, last_success_at, last_failure_at, answers, deliveries
FROM rollups
WHERE lane = ?1 AND span = ?2 AND minute = ?3;
