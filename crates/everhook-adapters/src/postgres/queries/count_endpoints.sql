-- How many endpoints does an organization have? Deleted ones do not count.
-- Index: endpoints_by_organization. Lock: the organization, taken by the caller.
SELECT count(*) AS count FROM endpoints WHERE organization_id = $1 AND state <> 'deleted';
