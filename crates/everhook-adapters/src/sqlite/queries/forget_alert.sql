-- Forgets an alert that was told.
-- Index: the primary key. Lock: the write lock.
DELETE FROM pending_alerts WHERE id = ?1;
