-- Which events of an organization came through a source and are about one of its users, between two ids, by type and time of acceptance, newest first (a page backward: oldest first)?
-- Index: received_by_user, the primary key of events. Lock: none, a snapshot.
SELECT e.id, e.application_id, e.event_type, e.priority, e.timestamp, e.idempotency_key, e.source, e.sequence_number, e.deliveries, e.created_at,
    e.erased_at, e.content_type, r.source_id, r.external_user_id, r.duplicate_of
FROM received_events r INDEXED BY received_by_user CROSS JOIN events e ON e.id = r.event_id
WHERE r.source_id = ?8 AND r.external_user_id = ?9 AND r.event_id > ?2 AND r.event_id < ?3 AND e.organization_id = ?1
    AND (?5 IS NULL OR e.event_type = ?5)
    AND e.created_at >= ?6 AND e.created_at < ?7
ORDER BY r.event_id DESC
LIMIT ?4;
