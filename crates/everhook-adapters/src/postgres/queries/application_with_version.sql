-- Which application has this id, where does its configuration stand, since when are changes known, what may its organization use, which pool is that
-- in, and does this one send for it?
-- Index: the primary keys. Lock: none.
SELECT a.id, a.organization_id, a.uid, a.name, a.kind, a.created_at, a.strict_event_types, a.owner_email, a.base_url, a.health_path, c.config_version, c.purged_version,
    o.config_version AS organization_version, o.limits, o.worker_pool,
    o.moves,
    o.worker_pool = $2 AND NOT EXISTS (SELECT 1 FROM departures d JOIN boots b ON b.id = d.boot WHERE d.organization_id = o.id) AS is_here
FROM applications a
JOIN application_counters c ON c.application_id = a.id
JOIN organizations o ON o.id = a.organization_id
WHERE a.id = $1 AND o.deleted_at IS NULL;
