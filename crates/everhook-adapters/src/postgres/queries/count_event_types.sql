-- How many event types does an organization have?
-- Index: event_types_by_organization. Lock: the organization, taken by the caller.
SELECT count(*) AS count FROM event_types WHERE organization_id = $1;
