-- Replaces an application's name and uid.
-- Index: the primary key. Lock: the write lock.
UPDATE applications SET uid = ?3, name = ?4 WHERE id = ?2 AND organization_id = ?1;
