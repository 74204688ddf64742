-- Makes the rows of sources and minutes that have none yet, with nothing in them.
-- Index: the primary key. Lock: the new rows, in the order of the key, until the commit.
INSERT INTO source_rollups (source_id, minute, accepted, handshakes, rejected, events, latency_sum, latencies)
SELECT source_id, minute, 0, 0, '{}', '{}', 0, ''
FROM unnest($1::uuid[], $2::bigint[]) AS n (source_id, minute)
ORDER BY source_id, minute
ON CONFLICT DO NOTHING;
