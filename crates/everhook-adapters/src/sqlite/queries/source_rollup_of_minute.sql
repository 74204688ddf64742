-- What happened at a source in one minute?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT minute, accepted, handshakes, rejected, events, latency_sum, latencies
FROM source_rollups
WHERE source_id = ?1 AND minute = ?2;
