-- Which alerts does an organization have between two ids, newest first (a page backward: oldest first)?
-- Index: alerts_by_organization. Lock: none, a snapshot.
SELECT id, organization_id, target_id, application_id, stage, since, value, updated_at, reported_at, silenced_until, definition, episodes, revision
FROM alerts
WHERE organization_id = ?1 AND id > ?2 AND id < ?3
    AND (?5 IS NULL OR stage = ?5) AND (?6 IS NULL OR rule = ?6) AND (?7 IS NULL OR target_id = ?7)
    AND (?8 IS NULL OR (coalesce(silenced_until, 0) > ?8) = ?9)
ORDER BY id DESC
LIMIT ?4;
