-- Notes changes, for the nodes that remember what was before.
-- Index: the primary key. Lock: none but the new rows.
INSERT INTO changes (kind, id, application_id) SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[]);
