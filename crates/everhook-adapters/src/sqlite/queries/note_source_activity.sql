-- Notes what happened at a source last, if it is still there. What is known already and is later stays.
-- Index: the primary keys. Lock: the write lock.
INSERT INTO source_activity AS known (source_id, accepted_at, refused_at, refusal, handshake_at)
SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM sources WHERE id = ?1)
ON CONFLICT (source_id) DO UPDATE SET
    accepted_at = max(coalesce(known.accepted_at, excluded.accepted_at), coalesce(excluded.accepted_at, known.accepted_at)),
    refusal = CASE WHEN excluded.refused_at IS NULL OR known.refused_at >= excluded.refused_at THEN known.refusal ELSE excluded.refusal END,
    refused_at = max(coalesce(known.refused_at, excluded.refused_at), coalesce(excluded.refused_at, known.refused_at)),
    handshake_at = max(coalesce(known.handshake_at, excluded.handshake_at), coalesce(excluded.handshake_at, known.handshake_at));
