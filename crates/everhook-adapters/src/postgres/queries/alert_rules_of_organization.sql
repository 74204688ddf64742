-- Which alert rules does an organization have?
-- Index: alert_rules_by_name. Lock: none.
SELECT id, organization_id, definition, created_at, updated_at
FROM alert_rules
WHERE organization_id = $1
ORDER BY name;
