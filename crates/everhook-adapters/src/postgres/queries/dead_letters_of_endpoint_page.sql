-- Which dead letters of an endpoint are there between two ids, by the filters, newest first (a page backward: oldest first)?
-- Index: dead_letters_by_endpoint. Lock: none. Pairs are compared, so that no plan walks everybody's ids; `IS TRUE` hides the organization from
-- its own index, which would have all its dead letters sorted.
SELECT id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause,
    failure_category, last_error, attempts, failures, first_failure_at, last_failure_at, requeued_at
FROM dead_letters
WHERE endpoint_id = $6 AND (endpoint_id, id) > ($6, $2) AND (endpoint_id, id) < ($6, $3) AND (organization_id = $1) IS TRUE
    AND ($5::uuid IS NULL OR application_id = $5)
    AND ($7::text IS NULL OR event_type = $7)
    AND ($8::text IS NULL OR status = $8)
    AND ($9::text IS NULL OR failure_category = $9)
    AND ($12::text IS NULL OR kind = $12)
    AND first_failure_at >= $10 AND first_failure_at < $11
ORDER BY endpoint_id DESC, id DESC
LIMIT $4;
