-- Which events of an organization are there between two ids, by application, type and time of acceptance, newest first (a page backward: oldest first)?
-- Index: events_by_organization. Lock: none, a snapshot.
SELECT id, application_id, event_type, priority, timestamp, idempotency_key, source, sequence_number, deliveries, created_at, erased_at,
    content_type
FROM events
WHERE organization_id = ?1 AND id > ?2 AND id < ?3
    AND (?5 IS NULL OR application_id = ?5)
    AND (?6 IS NULL OR event_type = ?6)
    AND created_at >= ?7 AND created_at < ?8
ORDER BY id DESC
LIMIT ?4;
