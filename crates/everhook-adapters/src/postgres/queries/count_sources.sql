-- How many sources does an organization have?
-- Index: sources_by_organization. Lock: the organization, taken by the caller.
SELECT count(*) AS count FROM sources WHERE organization_id = $1;
