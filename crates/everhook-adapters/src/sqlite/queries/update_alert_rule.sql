-- Changes an alert rule, if nobody changed it since it was read.
-- Index: the primary key. Lock: the write lock.
UPDATE alert_rules SET definition = ?3, updated_at = ?4
WHERE id = ?1 AND organization_id = ?2 AND updated_at = ?5;
