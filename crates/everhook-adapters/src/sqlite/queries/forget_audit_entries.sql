-- Removes entries of some organizations' audit logs that come before an id.
-- Index: the primary keys. Lock: the write lock.
DELETE FROM audit_log
WHERE (organization_id, id) IN (
    SELECT a.organization_id, a.id
    FROM organizations g CROSS JOIN audit_log a ON a.organization_id = g.id AND a.id < ?3
    WHERE g.id > ?1 AND g.id <= ?2
    LIMIT ?4
);
