-- Which events of an organization are there between two ids, by application, type and time of acceptance, newest first (a page backward: oldest first)?
-- Index: events_by_organization. Lock: none. Pairs are compared, so that no plan walks everybody's ids.
SELECT id, application_id, event_type, priority, timestamp, idempotency_key, source, sequence_number, deliveries, created_at, erased_at,
    content_type
FROM events
WHERE (organization_id, id) > ($1, $2) AND (organization_id, id) < ($1, $3)
    AND ($5::uuid IS NULL OR application_id = $5)
    AND ($6::text IS NULL OR event_type = $6)
    AND created_at >= $7 AND created_at < $8
ORDER BY organization_id DESC, id DESC
LIMIT $4;
