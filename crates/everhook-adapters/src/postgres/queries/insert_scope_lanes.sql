-- Makes the numbers under which the applications and organizations of these lanes are counted, where there are none yet.
-- Index: the primary key, lanes_by_id. Lock: the new rows, in the order of their ids, until the commit.
INSERT INTO lanes (id, kind, organization_id, application_id)
SELECT DISTINCT s.id, s.kind, l.organization_id, s.id
FROM lanes l CROSS JOIN LATERAL (VALUES (l.application_id, 'application'), (l.organization_id, 'organization')) AS s (id, kind)
WHERE l.lane = ANY($1)
ORDER BY s.id
ON CONFLICT (id) DO NOTHING;
