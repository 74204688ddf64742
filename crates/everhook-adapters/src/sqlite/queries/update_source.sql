-- Replaces a source, if it was not changed since it was read.
-- Index: the primary key. Lock: the write lock.
UPDATE sources
SET name = ?4, kind = ?5, recipe = ?6, secrets = ?7, verify_token = ?8, settings = ?9, paused_at = ?10, paused_mode = ?11, awaiting_handshake_until = ?12, updated_at = ?13,
    processor = ?14, processor_schedule = ?15
WHERE id = ?1 AND organization_id = ?2 AND updated_at = ?3;
