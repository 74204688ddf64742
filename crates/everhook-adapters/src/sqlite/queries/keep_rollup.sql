-- Keeps what happened in a lane in one minute, hour or day. A row that is there is changed, so that the indexes are left alone, and says as before whether it
-- was counted by longer ones.
-- Index: the primary key. Lock: the write lock.
INSERT INTO rollups (
    lane, span, minute, folded, successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
    duration_sum, durations, last_success_at, last_failure_at, answers, deliveries
)
VALUES (?1, ?2, ?3, ?2 > 1, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
ON CONFLICT (lane, span, minute) DO UPDATE SET
    successes = excluded.successes,
    timeout = excluded.timeout,
    server_error = excluded.server_error,
    client_error = excluded.client_error,
    network = excluded.network,
    dns = excluded.dns,
    tls = excluded.tls,
    rate_limit = excluded.rate_limit,
    payload_too_large = excluded.payload_too_large,
    redirect = excluded.redirect,
    blocked_address = excluded.blocked_address,
    duration_sum = excluded.duration_sum,
    durations = excluded.durations,
    last_success_at = excluded.last_success_at,
    last_failure_at = excluded.last_failure_at,
    answers = excluded.answers,
    deliveries = excluded.deliveries;
