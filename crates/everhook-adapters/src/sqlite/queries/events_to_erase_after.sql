-- Which events of an organization come after an id and before another, with which labels?
-- Index: events_by_organization, the primary key. Lock: none, a snapshot.
SELECT e.id, e.application_id, e.created_at, e.erased_at IS NOT NULL AS is_erased, x.labels
FROM events e INDEXED BY events_by_organization LEFT JOIN event_extras x ON x.event_id = e.id
WHERE e.organization_id = ?1 AND e.id > ?2 AND e.id < ?3
ORDER BY e.id
LIMIT ?4;
