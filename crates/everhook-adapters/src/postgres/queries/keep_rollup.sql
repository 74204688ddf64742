-- Keeps what happened in lanes in some minutes, hours and days.
-- Index: the primary key. Lock: the rows, held by the caller.
UPDATE rollups r
SET folded = n.folded,
    successes = n.successes,
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
    answers = n.answers,
    deliveries = n.deliveries
FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
        $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bytea[], $18::bigint[], $19::bigint[], $20::bytea[], $21::bytea[]
    ) AS n (
        lane, span, minute, folded, successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
        duration_sum, durations, last_success_at, last_failure_at, answers, deliveries
    )
WHERE r.lane = n.lane AND r.span = n.span AND r.minute = n.minute;
