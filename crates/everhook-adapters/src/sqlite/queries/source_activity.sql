-- What happened at a source last?
-- Index: the primary key. Lock: none, a snapshot.
SELECT source_id, accepted_at, refused_at, refusal, handshake_at FROM source_activity WHERE source_id = ?1;
