-- Notes what happened at sources last, as far as they are still there. What is known already and is later stays.
-- Index: the primary keys. Lock: the sources against being deleted, then the rows; in the order of their ids.
INSERT INTO source_activity AS known (source_id, accepted_at, refused_at, refusal, handshake_at)
SELECT kept.id, news.accepted_at, news.refused_at, news.refusal, news.handshake_at
FROM (SELECT id FROM sources WHERE id = ANY($1) ORDER BY id FOR KEY SHARE) AS kept
JOIN unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[]) AS news (id, accepted_at, refused_at, refusal, handshake_at)
    ON news.id = kept.id
ORDER BY kept.id
ON CONFLICT (source_id) DO UPDATE SET
    accepted_at = greatest(known.accepted_at, excluded.accepted_at),
    refusal = CASE WHEN excluded.refused_at IS NULL OR known.refused_at >= excluded.refused_at THEN known.refusal ELSE excluded.refusal END,
    refused_at = greatest(known.refused_at, excluded.refused_at),
    handshake_at = greatest(known.handshake_at, excluded.handshake_at);
