-- Which event has an idempotency key, of one application of an organization or of any?
-- Index: applications_by_organization, the primary key of idempotency_keys. Lock: none, a snapshot.
SELECT k.event_id
FROM applications a CROSS JOIN idempotency_keys k ON k.application_id = a.id AND k.key = ?3
WHERE a.organization_id = ?1 AND (?2 IS NULL OR a.id = ?2)
ORDER BY k.event_id DESC
LIMIT 1;
