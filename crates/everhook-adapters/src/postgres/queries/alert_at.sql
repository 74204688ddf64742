-- How does an alert rule stand at one thing?
-- Index: alerts_by_organization while there are few, the unique one of targets else. Lock: none.
SELECT id, organization_id, target_id, application_id, stage, since, value, updated_at, reported_at, silenced_until, definition, episodes, revision
FROM alerts
WHERE organization_id = $1 AND rule = $2 AND target_id = $3;
