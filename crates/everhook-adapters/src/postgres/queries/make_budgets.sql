-- Makes the rows of budgets that nobody has drawn from.
-- Index: the primary key. Lock: the rows that are made, in the order of their keys.
INSERT INTO budgets (organization_id, kind)
SELECT * FROM unnest($1::uuid[], $2::text[]) AS wanted (organization_id, kind)
ORDER BY organization_id, kind
ON CONFLICT DO NOTHING;
