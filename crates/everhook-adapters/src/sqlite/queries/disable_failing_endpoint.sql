-- Disables an endpoint that fails for days, if it is enabled and not paused. `updated_at` always rises, so that an owner's change based on what
-- was before is refused.
-- Index: the primary key. Lock: the write lock.
UPDATE endpoints
SET state = 'disabled', disabled_at = ?2, disabled_reason = ?3, updated_at = max(?2, updated_at + 1)
WHERE id = ?1 AND state = 'enabled' AND paused_at IS NULL
RETURNING application_id;
