-- Removes those of some organizations that were deleted before an instant and of which nothing else is kept that is found by them.
-- Index: the primary keys, lanes_by_organization, applications_by_organization. Lock: the rows.
DELETE FROM organizations
WHERE id = ANY(ARRAY(
    SELECT g.id FROM organizations g
    WHERE g.id > $1 AND g.id <= $2 AND g.deleted_at < $3
        AND (SELECT true FROM lanes WHERE organization_id = g.id LIMIT 1) IS NULL
        AND (SELECT true FROM applications WHERE organization_id = g.id LIMIT 1) IS NULL
        AND (SELECT true FROM audit_log WHERE organization_id = g.id LIMIT 1) IS NULL
    LIMIT $4
));
