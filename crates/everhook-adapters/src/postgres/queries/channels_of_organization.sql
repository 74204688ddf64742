-- Which channels has an organization, those of e-mail first? Their number is bounded where they are made.
-- Index: the unique key (organization_id, name). Lock: none.
SELECT id, kind, name, retry_schedule, credentials, event_types, min_severity, enabled, created_at, updated_at, is_admin
FROM channels WHERE organization_id = $1 ORDER BY kind <> 'email', name;
