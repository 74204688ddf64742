-- Deletes an alert rule by its name.
-- Index: alert_rules_by_name. Lock: the write lock.
DELETE FROM alert_rules WHERE organization_id = ?1 AND name = ?2;
