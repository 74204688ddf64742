-- Makes the lane of a capability, unless it has one from before.
-- Index: lanes_by_id. Lock: the rows.
INSERT INTO lanes (id, kind, organization_id, application_id)
SELECT id, 'capability', $2, $3 FROM unnest($1::uuid[]) AS id
WHERE NOT EXISTS (SELECT FROM lanes l WHERE l.id = id.id);
