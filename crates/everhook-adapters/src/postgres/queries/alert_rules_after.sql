-- Which alert rules come after an id?
-- Index: the primary key. Lock: none.
SELECT id, organization_id, definition, created_at, updated_at
FROM alert_rules
WHERE id > $1
ORDER BY id
LIMIT $2;
