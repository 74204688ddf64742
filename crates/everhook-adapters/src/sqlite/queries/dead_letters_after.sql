-- Which dead letters of an organization come after an id?
-- Index: dead_letters_by_organization. Lock: none, a snapshot.
SELECT id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause,
    failure_category, last_error, attempts, failures, first_failure_at, last_failure_at, requeued_at
FROM dead_letters INDEXED BY dead_letters_by_organization
WHERE organization_id = ?1 AND id > ?2
ORDER BY id
LIMIT ?3;
