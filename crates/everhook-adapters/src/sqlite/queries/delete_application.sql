-- Deletes an application that is not built in.
-- Index: the primary key. Lock: the write lock.
DELETE FROM applications WHERE organization_id = ?1 AND id = ?2 AND kind = 'custom';
