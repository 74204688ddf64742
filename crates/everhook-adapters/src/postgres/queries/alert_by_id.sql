-- How does an alert stand?
-- Index: the primary key. Lock: none.
SELECT id, organization_id, target_id, application_id, stage, since, value, updated_at, reported_at, silenced_until, definition, episodes, revision
FROM alerts
WHERE id = $1 AND organization_id = $2;
