-- What happened at a source in these minutes, the last not included? Compared as pairs, so that the minutes of all sources are never looked through.
-- Index: the primary key. Lock: none.
SELECT minute, accepted, handshakes, rejected, events, latency_sum, latencies
FROM source_rollups
WHERE (source_id, minute) >= ($1, $2) AND (source_id, minute) < ($1, $3)
ORDER BY source_id, minute;
