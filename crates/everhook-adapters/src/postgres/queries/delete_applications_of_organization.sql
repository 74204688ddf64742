-- Deletes some applications of a deleted organization, the built-in ones too, with their counters; which?
-- Index: applications_by_organization, the primary keys. Lock: the rows; the organization is taken by the caller before.
WITH gone AS (
    DELETE FROM applications
    WHERE id = ANY(ARRAY(SELECT id FROM applications WHERE organization_id = $1 ORDER BY organization_id, id LIMIT $2))
    RETURNING id
), counters AS (
    DELETE FROM application_counters WHERE application_id IN (SELECT id FROM gone)
)
SELECT id FROM gone;
