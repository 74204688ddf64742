-- Makes the lane of a channel, unless it has one from before.
-- Index: the primary key, lanes_by_id, applications_by_organization. Lock: the write lock.
INSERT INTO lanes (lane, id, kind, organization_id, application_id)
SELECT (SELECT coalesce(max(lane), 0) + 1 FROM lanes), ?1, 'channel', a.organization_id, a.id
FROM (SELECT id, organization_id FROM applications WHERE organization_id = ?2 AND kind = 'operational' LIMIT 1) a
WHERE NOT EXISTS (SELECT 1 FROM lanes WHERE id = ?1);
