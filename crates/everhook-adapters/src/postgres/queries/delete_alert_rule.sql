-- Deletes an alert rule by its name.
-- Index: alert_rules_by_name. Lock: the row.
DELETE FROM alert_rules WHERE organization_id = $1 AND name = $2;
