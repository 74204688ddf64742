-- Makes an organization.
-- Index: the primary key. Lock: the write lock.
INSERT INTO organizations (id, uid, name, created_at, limits, admin_emails) VALUES (?1, ?2, ?3, ?4, ?5, ?6);
