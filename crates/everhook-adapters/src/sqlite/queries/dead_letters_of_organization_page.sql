-- Which dead letters of an organization are there between two ids, by the filters, newest first (a page backward: oldest first)?
-- Index: dead_letters_by_organization. Lock: none, a snapshot.
SELECT id, organization_id, application_id, event_id, event_type, endpoint_id, kind, target, last_delivery_id, status, cause,
    failure_category, last_error, attempts, failures, first_failure_at, last_failure_at, requeued_at
FROM dead_letters INDEXED BY dead_letters_by_organization
WHERE organization_id = ?1 AND id > ?2 AND id < ?3
    AND (?5 IS NULL OR application_id = ?5)
    AND (?6 IS NULL OR endpoint_id = ?6)
    AND (?7 IS NULL OR event_type = ?7)
    AND (?8 IS NULL OR status = ?8)
    AND (?9 IS NULL OR failure_category = ?9)
    AND (?12 IS NULL OR kind = ?12)
    AND first_failure_at >= ?10 AND first_failure_at < ?11
ORDER BY id DESC
LIMIT ?4;
