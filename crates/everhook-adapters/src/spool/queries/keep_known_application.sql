-- Keeps an application, or what has changed of it.
-- Index: the primary key. Lock: the write lock.
INSERT OR REPLACE INTO known_applications (id, organization_id, uid, is_default) VALUES (?1, ?2, ?3, ?4);
