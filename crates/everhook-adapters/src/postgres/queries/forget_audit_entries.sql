-- Removes entries of some organizations' audit logs that come before an id.
-- Index: the primary keys. Lock: the rows.
DELETE FROM audit_log a
USING (
    SELECT n.organization_id, n.id
    FROM organizations g
        CROSS JOIN LATERAL (SELECT organization_id, id FROM audit_log WHERE organization_id = g.id AND id < $3 LIMIT $4) n
    WHERE g.id > $1 AND g.id <= $2
    LIMIT $4
) AS old
WHERE a.organization_id = old.organization_id AND a.id = old.id;
