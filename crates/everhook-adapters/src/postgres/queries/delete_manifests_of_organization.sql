-- Deletes the manifests of a deleted organization.
-- Index: manifests_by_organization. Lock: the rows.
DELETE FROM manifests WHERE organization_id = $1;
