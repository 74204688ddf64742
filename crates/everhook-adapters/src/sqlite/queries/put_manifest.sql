-- Keeps a manifest, if its version is the next one.
-- Index: the primary key. Lock: the write lock.
INSERT INTO manifests (application_id, organization_id, version, document, updated_at, owner_email)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (application_id) DO UPDATE SET version = excluded.version, document = excluded.document, updated_at = excluded.updated_at,
    owner_email = excluded.owner_email
WHERE manifests.version = excluded.version - 1;
