-- What happened at a source in these minutes, the last not included?
-- Index: the primary key. Lock: none.
SELECT minute, accepted, handshakes, rejected, events, latency_sum, latencies
FROM source_rollups
WHERE source_id = ?1 AND minute >= ?2 AND minute < ?3
ORDER BY minute;
