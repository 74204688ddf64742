-- What happened at sources after this minute and source, minute by minute?
-- Index: source_rollups_by_age, then primary keys. Lock: none, a snapshot.
SELECT s.id, s.organization_id, s.application_id, r.minute, r.accepted, r.handshakes, r.rejected, r.events, r.latency_sum, r.latencies
FROM source_rollups r INDEXED BY source_rollups_by_age
    CROSS JOIN sources s ON s.id = r.source_id
WHERE (r.minute, r.source_id) > (?1, ?2)
ORDER BY r.minute, r.source_id
LIMIT ?3;
