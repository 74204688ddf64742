-- What happened in lanes in some minutes, before more is added, and in minutes before the newest of these that hours and days have not counted?
-- Index: the primary key, unfolded_rollups. Lock: the rows, in the order of the key, until the commit.
WITH added (lane, minute) AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[])
), wanted (lane, span, minute) AS (
    SELECT lane, 1, minute FROM added
    UNION
    SELECT n.lane, 1, u.minute
    FROM (SELECT lane, max(minute) AS minute FROM added GROUP BY lane) n
        CROSS JOIN LATERAL (SELECT minute FROM rollups WHERE lane = n.lane AND NOT folded AND minute < n.minute OFFSET 0) u
)
SELECT r.lane, r.minute, r.folded, r.successes, r.timeout, r.server_error, r.client_error, r.network, r.dns, r.tls, r.rate_limit, r.payload_too_large, r.redirect, r.blocked_address,
    r.duration_sum, r.durations, r.last_success_at, r.last_failure_at, r.answers, r.deliveries
FROM wanted w JOIN rollups r ON r.lane = w.lane AND r.span = w.span AND r.minute = w.minute
ORDER BY r.lane, r.minute
FOR NO KEY UPDATE OF r;
