-- Enters a change in the audit log.
-- Index: the primary key. Lock: the row.
INSERT INTO audit_log (organization_id, id, at, actor_id, actor_name, action, resource_id, before, after, is_cut)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);
