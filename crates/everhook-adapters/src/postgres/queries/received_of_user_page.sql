-- Which events of an organization came through a source and are about one of its users, between two ids, by type and time of acceptance, newest first (a page backward: oldest first)?
-- Index: received_by_user. Lock: none. Columns are compared together, so that no plan walks everybody's ids, and the
-- organization as no index does, so that none walks all of its events.
SELECT id, application_id, event_type, priority, timestamp, idempotency_key, source, sequence_number, deliveries, created_at, erased_at,
    content_type, source_id, external_user_id, duplicate_of
FROM events
WHERE external_user_id IS NOT NULL AND (source_id, external_user_id, id) > ($8, $9, $2) AND (source_id, external_user_id, id) < ($8, $9, $3)
    AND organization_id IS NOT DISTINCT FROM $1
    AND ($5::text IS NULL OR event_type = $5)
    AND created_at >= $6 AND created_at < $7
ORDER BY source_id DESC, external_user_id DESC, id DESC
LIMIT $4;
