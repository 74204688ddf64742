-- How many applications does an organization have beside the built-in ones?
-- Index: applications_by_organization. Lock: the organization, taken by the caller.
SELECT count(*) AS count FROM applications WHERE organization_id = $1 AND kind = 'custom';
