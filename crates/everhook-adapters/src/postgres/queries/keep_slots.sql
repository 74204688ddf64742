-- Keeps how many slots of organizations processes hold.
-- Index: the primary key. Lock: the rows; those of `budgets` are locked already.
INSERT INTO budget_slots (organization_id, holder, held, wanted, held_until)
SELECT kept.organization_id, kept.holder, kept.held, kept.wanted, kept.held_until
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[]) AS kept (organization_id, holder, held, wanted, held_until)
ON CONFLICT (organization_id, holder) DO UPDATE SET held = excluded.held, wanted = excluded.wanted, held_until = excluded.held_until;
