-- Notes that a deleted endpoint is about to be removed for good: changes since before its deletion are no longer known.
-- Index: the primary keys. Lock: the write lock.
UPDATE applications SET purged_version = max(purged_version, (SELECT p.changed_version FROM endpoints p WHERE p.id = ?1))
WHERE id = (SELECT p.application_id FROM endpoints p WHERE p.id = ?1);
