-- Makes the rows of endpoints and minutes that have none yet, with nothing in them.
-- Index: the primary key. Lock: the new rows, in the order of the key, until the commit.
INSERT INTO rollups (
    lane, minute, successes, timeout, server_error, client_error, network, dns, tls, rate_limit, payload_too_large, redirect, blocked_address,
    duration_sum, durations
)
SELECT lane, minute, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ''
FROM unnest($1::bigint[], $2::bigint[]) AS n (lane, minute)
ORDER BY lane, minute
ON CONFLICT DO NOTHING;
