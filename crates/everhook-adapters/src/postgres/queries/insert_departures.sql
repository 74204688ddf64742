-- Notes for each worker of a pool that it must let go of an organization, unless it has not let go of it since an earlier move.
-- Index: the primary keys. Lock: the pools, taken by the caller; the new rows.
INSERT INTO departures (organization_id, boot, moves)
SELECT o.id, b.id, o.moves FROM organizations o CROSS JOIN boots b WHERE o.id = $1 AND b.pool = $2 AND b.worker
ON CONFLICT (organization_id, boot) DO NOTHING;
