-- How many alert rules does an organization have?
-- Index: alert_rules_by_name. Lock: none, a snapshot.
SELECT count(*) AS count FROM alert_rules WHERE organization_id = ?1;
