-- Keeps what happened at an endpoint in one minute.
-- Index: the primary key. Lock: the write lock.
INSERT OR REPLACE INTO rollups (
    lane, minute, successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
    duration_sum, durations, last_success_at, last_failure_at, answers
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18);
