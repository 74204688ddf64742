-- Deletes some applications of a deleted organization, the built-in ones too; which?
-- Index: applications_by_organization. Lock: the write lock.
DELETE FROM applications WHERE id IN (SELECT id FROM applications WHERE organization_id = ?1 ORDER BY id LIMIT ?2) RETURNING id;
