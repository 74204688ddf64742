-- What happened at endpoints in some minutes, before more is added?
-- Index: the primary key. Lock: the rows, in the order of the key, until the commit.
SELECT r.lane, r.minute, r.successes, r.timeout, r.server_error, r.client_error, r.network, r.dns, r.tls,
    r.rate_limit, r.payload_too_large, r.redirect, r.blocked_address, r.duration_sum, r.durations, r.last_success_at, r.last_failure_at, r.answers
FROM unnest($1::bigint[], $2::bigint[]) AS n (lane, minute) JOIN rollups r ON r.lane = n.lane AND r.minute = n.minute
ORDER BY r.lane, r.minute
FOR NO KEY UPDATE OF r;
