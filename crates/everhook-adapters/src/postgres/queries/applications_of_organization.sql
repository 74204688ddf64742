-- Which applications does an organization have?
-- Index: applications_by_organization. Lock: the organization, taken by the caller.
SELECT id FROM applications WHERE organization_id = $1;
