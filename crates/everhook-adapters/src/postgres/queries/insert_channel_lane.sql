-- Makes the lane of a channel, unless it has one from before.
-- Index: lanes_by_id, applications_by_organization. Lock: the row.
INSERT INTO lanes (id, kind, organization_id, application_id)
SELECT $1, 'channel', a.organization_id, a.id
FROM (SELECT id, organization_id FROM applications WHERE organization_id = $2 AND kind = 'operational' ORDER BY id LIMIT 1) a
WHERE NOT EXISTS (SELECT FROM lanes WHERE id = $1);
