-- Deletes an event type.
-- Index: the primary key. Lock: the row.
DELETE FROM event_types WHERE id = $2 AND organization_id = $1;
