-- Replaces what can be changed of an organization.
-- Index: the primary key. Lock: the write lock.
UPDATE organizations SET uid = ?2, name = ?3, limits = ?4, admin_emails = ?5 WHERE id = ?1;
