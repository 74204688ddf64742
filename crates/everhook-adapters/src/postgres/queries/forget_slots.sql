-- Forgets slots that nobody holds any more.
-- Index: the primary key. Lock: the rows; those of `budgets` are locked already.
DELETE FROM budget_slots s
USING unnest($1::uuid[], $2::uuid[]) AS gone (organization_id, holder)
WHERE s.organization_id = gone.organization_id AND s.holder = gone.holder;
