-- Which source of an organization has this name?
-- Index: the unique one on (organization_id, name). Lock: none.
SELECT id, organization_id, application_id, name, kind, recipe, secrets, verify_token, settings, processor, paused_at, paused_mode, awaiting_handshake_until, created_at, updated_at
FROM sources
WHERE organization_id = $1 AND name = $2;
