-- Keeps how an alert rule stands at something of which nothing was kept.
-- Index: the primary key. Lock: the new row.
INSERT INTO alerts (id, organization_id, rule, target_id, application_id, stage, since, value, updated_at, reported_at, silenced_until, definition, episodes, revision)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 1)
ON CONFLICT DO NOTHING;
