-- What happened at sources in some minutes, before more is added?
-- Index: the primary key. Lock: the rows, in the order of the key, until the commit.
SELECT r.source_id, r.minute, r.accepted, r.handshakes, r.rejected, r.events, r.latency_sum, r.latencies
FROM unnest($1::uuid[], $2::bigint[]) AS n (source_id, minute) JOIN source_rollups r ON r.source_id = n.source_id AND r.minute = n.minute
ORDER BY r.source_id, r.minute
FOR NO KEY UPDATE OF r;
