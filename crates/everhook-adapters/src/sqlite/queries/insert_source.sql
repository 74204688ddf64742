-- Makes a source.
-- Index: the primary key. Lock: the write lock.
INSERT INTO sources (id, organization_id, application_id, name, kind, recipe, secrets, verify_token, settings, paused_at, paused_mode, awaiting_handshake_until, created_at, updated_at, processor, processor_schedule)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);
