-- Where do the configuration and the sequence of an application stand, and the configuration of its organization?
-- Index: the primary keys. Lock: the write lock, taken by the caller.
SELECT a.config_version, a.next_sequence, a.organization_id, o.config_version AS organization_version
FROM applications a JOIN organizations o ON o.id = a.organization_id
WHERE a.id = ?1 AND o.deleted_at IS NULL;
