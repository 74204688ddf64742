-- Keeps what happened at a source in one minute.
-- Index: the primary key. Lock: the write lock.
INSERT OR REPLACE INTO source_rollups (source_id, minute, accepted, handshakes, rejected, events, latency_sum, latencies)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);
