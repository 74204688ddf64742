-- How does a dead letter of an organization stand?
-- Index: the primary key. Lock: none, a snapshot.
SELECT id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause,
    failure_category, last_error, attempts, failures, first_failure_at, last_failure_at, requeued_at
FROM dead_letters
WHERE id = ?2 AND organization_id = ?1;
