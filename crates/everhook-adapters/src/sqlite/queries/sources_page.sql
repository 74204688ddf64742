-- Which sources does an organization have between two ids, of all its applications or of one, newest first (a page backward: oldest first)?
-- Index: sources_by_organization, of which there are at most a thousand. Lock: none, a snapshot.
SELECT id, organization_id, application_id, name, kind, recipe, secrets, verify_token, settings, processor, paused_at, paused_mode, awaiting_handshake_until, created_at, updated_at
FROM sources
WHERE organization_id = ?1 AND id > ?2 AND id < ?3 AND (?5 IS NULL OR application_id = ?5)
ORDER BY id DESC
LIMIT ?4;
