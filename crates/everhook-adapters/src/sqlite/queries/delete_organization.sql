-- Marks an organization as deleted: nobody finds it any more, and its uid is free.
-- Index: the primary key. Lock: the write lock.
UPDATE organizations SET deleted_at = ?2, uid = NULL WHERE id = ?1 AND deleted_at IS NULL;
