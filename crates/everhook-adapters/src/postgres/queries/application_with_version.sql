-- Which application has this id, and where does its configuration stand, and what may its organization use?
-- Index: the primary keys. Lock: none.
SELECT a.id, a.organization_id, a.uid, a.name, a.kind, a.created_at, a.strict_event_types, c.config_version, o.limits
FROM applications a
JOIN application_counters c ON c.application_id = a.id
JOIN organizations o ON o.id = a.organization_id
WHERE a.id = $1;
