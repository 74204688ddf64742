-- What happened in a lane in minutes before one that its hours and days have not counted?
-- Index: unfolded_rollups, then the primary key. Lock: the write lock, taken by the caller.
SELECT minute, successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
    duration_sum, durations, last_success_at, last_failure_at, answers, deliveries
FROM rollups
WHERE lane = ?1 AND folded = 0 AND minute < ?2
ORDER BY minute;
