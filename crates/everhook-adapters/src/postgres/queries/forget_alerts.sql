-- Forgets alerts that were told.
-- Index: the primary key. Lock: the rows.
DELETE FROM pending_alerts WHERE id = ANY($1);
