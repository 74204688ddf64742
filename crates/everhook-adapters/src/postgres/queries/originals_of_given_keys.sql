-- Which events have these keys?
-- Index: the primary keys. Lock: none.
SELECT k.application_id, k.key, e.id, e.deliveries, e.sequence_number
FROM unnest($1::uuid[], $2::text[]) AS n (application_id, key)
    JOIN idempotency_keys k ON k.application_id = n.application_id AND k.key = n.key
    JOIN events e ON e.id = k.event_id
WHERE k.created_at >= $3;
