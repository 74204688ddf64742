-- Silences an alert until an instant, or no longer.
-- Index: the primary key. Lock: the write lock.
UPDATE alerts SET silenced_until = ?3, revision = revision + 1 WHERE id = ?1 AND organization_id = ?2;
