-- Makes the lane of a source's processor, unless it has one from before.
-- Index: lanes_by_id. Lock: the row.
INSERT INTO lanes (id, kind, organization_id, application_id)
SELECT $1, 'processor', $2, $3
WHERE NOT EXISTS (SELECT FROM lanes WHERE id = $1);
