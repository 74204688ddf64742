-- Keeps what is left in budgets.
-- Index: the primary key. Lock: the rows, which are locked already.
UPDATE budgets b SET parts = kept.parts, as_of = kept.as_of
FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[]) AS kept (organization_id, kind, parts, as_of)
WHERE b.organization_id = kept.organization_id AND b.kind = kept.kind;
