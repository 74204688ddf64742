-- Which alerts are not yet told, oldest first?
-- Index: the primary key. Lock: none.
SELECT id, organization_id, event_type, data FROM pending_alerts ORDER BY id LIMIT $1;
