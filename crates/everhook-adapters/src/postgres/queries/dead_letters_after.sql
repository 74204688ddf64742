-- Which dead letters of an organization come after an id?
-- Index: dead_letters_by_organization. Lock: none. Pairs are compared, so that no plan walks everybody's ids.
SELECT id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause,
    failure_category, last_error, attempts, failures, first_failure_at, last_failure_at, requeued_at
FROM dead_letters
WHERE (organization_id, id) > ($1, $2) AND organization_id <= $1
ORDER BY organization_id, id
LIMIT $3;
