-- What happened at these sources last?
-- Index: the primary key. Lock: none.
SELECT source_id, accepted_at, refused_at, refusal, handshake_at FROM source_activity WHERE source_id = ANY($1);
