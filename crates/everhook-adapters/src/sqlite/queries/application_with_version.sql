-- Which application has this id, and where does its configuration stand?
-- Index: the primary key. Lock: none, a snapshot.
SELECT id, organization_id, uid, name, kind, created_at, config_version FROM applications WHERE id = ?1;
