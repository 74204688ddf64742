-- Which events have these keys, given since an instant of each?
-- Index: the primary keys. Lock: none.
SELECT k.application_id, k.key, k.fingerprint, e.id, e.deliveries, e.sequence_number
FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS n (application_id, key, valid_since)
    JOIN idempotency_keys k ON k.application_id = n.application_id AND k.key = n.key
    JOIN events e ON e.id = k.event_id
WHERE k.created_at >= n.valid_since;
