-- Deletes the manifests of a deleted organization.
-- Index: manifests_by_organization. Lock: the write lock.
DELETE FROM manifests WHERE organization_id = ?1;
