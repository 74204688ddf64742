-- Which events of an organization come after an id and before another?
-- Index: events_by_organization. Lock: none, a snapshot.
SELECT id, application_id, event_type, created_at, first_delivery_id, last_delivery_id
FROM events INDEXED BY events_by_organization
WHERE organization_id = ?1 AND id > ?2 AND id < ?3
ORDER BY id
LIMIT ?4;
