-- Which event has an idempotency key, of one application of an organization or of any?
-- Index: applications_by_organization, the primary key of idempotency_keys. Lock: none. `OFFSET 0` keeps the look-up by key.
SELECT k.event_id
FROM applications a CROSS JOIN LATERAL (
        SELECT event_id FROM idempotency_keys WHERE application_id = a.id AND key = $3 OFFSET 0
    ) k
WHERE a.organization_id = $1 AND ($2::uuid IS NULL OR a.id = $2)
ORDER BY k.event_id DESC
LIMIT 1;
