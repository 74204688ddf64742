-- Notes that what organizations or applications have is to be deleted.
-- Index: the primary key. Lock: none but the new rows.
INSERT INTO deletions (id, kind, organization_id, reached)
SELECT id, $2, $3, '00000000-0000-0000-0000-000000000000' FROM unnest($1::uuid[]) AS gone (id);
