-- Makes the rows of lanes and minutes, hours or days that have none yet, with nothing in them.
-- Index: the primary key. Lock: the new rows, in the order of the key, until the commit.
INSERT INTO rollups (
    lane, span, minute, folded, successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
    duration_sum, durations
)
SELECT lane, span, minute, span > 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ''
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS n (lane, span, minute)
ORDER BY lane, span, minute
ON CONFLICT DO NOTHING;
