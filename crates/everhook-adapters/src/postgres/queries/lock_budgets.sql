-- What is in these budgets?
-- Index: the primary key. Lock: the rows, in the order of their keys, until the exchange is committed.
SELECT b.organization_id, b.kind, b.parts, b.as_of
FROM budgets b
WHERE (b.organization_id, b.kind) IN (SELECT * FROM unnest($1::uuid[], $2::text[]))
ORDER BY b.organization_id, b.kind
FOR UPDATE;
