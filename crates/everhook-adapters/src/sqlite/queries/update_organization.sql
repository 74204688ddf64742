-- Replaces an organization's name and uid.
-- Index: the primary key. Lock: the write lock.
UPDATE organizations SET uid = ?2, name = ?3 WHERE id = ?1;
