-- Which source has this id?
-- Index: the primary key. Lock: none.
SELECT id, organization_id, application_id, name, kind, recipe, secrets, verify_token, settings, processor, paused_at, paused_mode, awaiting_handshake_until, created_at, updated_at
FROM sources
WHERE id = $1;
