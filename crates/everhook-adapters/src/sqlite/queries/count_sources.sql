-- How many sources does an organization have?
-- Index: sources_by_organization. Lock: the write lock, taken by the caller.
SELECT count(*) FROM sources WHERE organization_id = ?1;
