-- Notes that a boot has let go of organizations, and tells those who may wait for it.
-- Index: the primary keys. Lock: the rows.
WITH gone AS (
    DELETE FROM departures d USING unnest($2::uuid[], $3::bigint[]) AS g (organization_id, moves)
    WHERE d.organization_id = g.organization_id AND d.boot = $1 AND d.moves = g.moves
    RETURNING d.organization_id
)
INSERT INTO changes (kind, id) SELECT 'organization', organization_id FROM gone;
