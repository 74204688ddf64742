-- Is an e-mail address that of an owner, by an application or by a manifest?
-- Index: applications_by_owner, manifests_by_owner. Lock: the write lock.
SELECT EXISTS (SELECT 1 FROM applications WHERE organization_id = ?1 AND owner_email = ?2)
    OR EXISTS (SELECT 1 FROM manifests WHERE organization_id = ?1 AND owner_email = ?2) AS is_owner;
