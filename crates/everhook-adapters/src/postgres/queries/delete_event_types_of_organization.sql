-- Deletes the event types of a deleted organization: at most 2,000.
-- Index: event_types_by_organization. Lock: the rows.
DELETE FROM event_types WHERE organization_id = $1;
