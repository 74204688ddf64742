-- Deletes the alert rules of a deleted organization, which has a hundred at most.
-- Index: alert_rules_by_name. Lock: the rows.
DELETE FROM alert_rules WHERE organization_id = $1;
