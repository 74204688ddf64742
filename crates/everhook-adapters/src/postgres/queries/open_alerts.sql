-- Which alerts are not over, after an id?
-- Index: open_alerts. Lock: none.
SELECT id, organization_id, target_id, application_id, stage, since, value, updated_at, reported_at, silenced_until, definition, episodes, revision
FROM alerts
WHERE stage <> 'ok' AND id > $1
ORDER BY id
LIMIT $2;
