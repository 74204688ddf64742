-- Keeps what happened at endpoints in some minutes.
-- Index: the primary key. Lock: the rows, held by the caller.
UPDATE rollups r
SET successes = n.successes,
    timeout = n.timeout,
    server_error = n.server_error,
    client_error = n.client_error,
    network = n.network,
    dns = n.dns,
    tls = n.tls,
    rate_limit = n.rate_limit,
    payload_too_large = n.payload_too_large,
    redirect = n.redirect,
    blocked_address = n.blocked_address,
    duration_sum = n.duration_sum,
    durations = n.durations,
    last_success_at = n.last_success_at,
    last_failure_at = n.last_failure_at,
    answers = n.answers
FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
        $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bytea[], $16::bigint[], $17::bigint[], $18::bytea[]
    ) AS n (
        lane, minute, successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
        duration_sum, durations, last_success_at, last_failure_at, answers
    )
WHERE r.lane = n.lane AND r.minute = n.minute;
