-- Keeps what happened at sources in some minutes.
-- Index: the primary key. Lock: the rows, held by the caller.
UPDATE source_rollups r
SET accepted = n.accepted,
    handshakes = n.handshakes,
    rejected = n.rejected,
    events = n.events,
    latency_sum = n.latency_sum,
    latencies = n.latencies
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::bytea[])
    AS n (source_id, minute, accepted, handshakes, rejected, events, latency_sum, latencies)
WHERE r.source_id = n.source_id AND r.minute = n.minute;
