-- Which events of an organization come after an id and before another?
-- Index: events_by_organization. Lock: none. Pairs are compared, so that no plan walks everybody's ids.
SELECT id, application_id, event_type, created_at, deliveries, first_delivery_id, last_delivery_id
FROM events
WHERE (organization_id, id) > ($1, $2) AND (organization_id, id) < ($1, $3)
ORDER BY organization_id, id
LIMIT $4;
