-- Which application has this id, where does its configuration stand, what may its organization use, and since when are changes known?
-- Index: the primary keys. Lock: none, a snapshot.
SELECT a.id, a.organization_id, a.uid, a.name, a.kind, a.created_at, a.strict_event_types, a.owner_email, a.base_url, a.health_path, a.config_version, a.purged_version, o.limits,
    o.config_version AS organization_version
FROM applications a JOIN organizations o ON o.id = a.organization_id
WHERE a.id = ?1 AND o.deleted_at IS NULL;
