-- Which alerts does an organization have between two ids, newest first (a page backward: oldest first)?
-- Index: alerts_by_organization. Lock: none.
SELECT id, organization_id, target_id, application_id, stage, since, value, updated_at, reported_at, silenced_until, definition, episodes, revision
FROM alerts
WHERE organization_id = $1 AND id > $2 AND id < $3
    AND ($5::text IS NULL OR stage = $5) AND ($6::text IS NULL OR rule = $6) AND ($7::uuid IS NULL OR target_id = $7)
    AND ($8::bigint IS NULL OR (coalesce(silenced_until, 0) > $8) = $9::boolean)
ORDER BY id DESC
LIMIT $4;
