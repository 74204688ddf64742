-- What happened in lanes in some hours and days, before more is added?
-- Index: the primary key. Lock: the rows, in the order of the key, until the commit.
SELECT r.lane, r.span, r.minute, r.successes, r.timeout, r.server_error, r.client_error, r.network, r.dns, r.tls, r.rate_limit, r.payload_too_large, r.redirect, r.blocked_address,
    r.duration_sum, r.durations, r.last_success_at, r.last_failure_at, r.answers, r.deliveries
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS n (lane, span, minute)
    JOIN rollups r ON r.lane = n.lane AND r.span = n.span AND r.minute = n.minute
ORDER BY r.lane, r.span, r.minute
FOR NO KEY UPDATE OF r;
