-- Removes those of some organizations that were deleted before an instant and of which nothing else is kept that is found by them.
-- Index: the primary keys, lanes_by_organization, applications_by_organization. Lock: the write lock.
DELETE FROM organizations
WHERE id IN (
    SELECT g.id FROM organizations g
    WHERE g.id > ?1 AND g.id <= ?2 AND g.deleted_at < ?3
        AND NOT EXISTS (SELECT 1 FROM lanes WHERE organization_id = g.id)
        AND NOT EXISTS (SELECT 1 FROM applications WHERE organization_id = g.id)
        AND NOT EXISTS (SELECT 1 FROM audit_log WHERE organization_id = g.id)
    LIMIT ?4
);
