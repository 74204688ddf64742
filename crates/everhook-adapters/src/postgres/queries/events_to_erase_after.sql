-- Which events of an organization come after an id and before another, with which labels?
-- Index: events_by_organization. Lock: none. Pairs are compared, so that no plan walks everybody's ids.
SELECT id, application_id, created_at, erased_at IS NOT NULL AS is_erased, labels
FROM events
WHERE (organization_id, id) > ($1, $2) AND (organization_id, id) < ($1, $3)
ORDER BY organization_id, id
LIMIT $4;
