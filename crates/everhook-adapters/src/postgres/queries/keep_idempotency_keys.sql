-- Takes keys that are free, or were given so long ago that their event forgets them. Answers those that were taken now.
-- Index: the primary key. Lock: the rows of these keys, in their order: who wants a key that another transaction takes waits for its end.
INSERT INTO idempotency_keys AS k (application_id, key, event_id, created_at, fingerprint)
SELECT application_id, key, event_id, created_at, fingerprint
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $6::bytea[]) AS n (application_id, key, event_id, created_at, fingerprint)
ORDER BY application_id, key COLLATE "C"
ON CONFLICT (application_id, key) DO UPDATE
SET event_id = excluded.event_id, created_at = excluded.created_at, fingerprint = excluded.fingerprint
WHERE k.created_at < ($5::bigint[])[array_position($3, excluded.event_id)]
RETURNING event_id;
