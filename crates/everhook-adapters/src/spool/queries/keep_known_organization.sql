-- Keeps an organization, or what has changed of it.
-- Index: the primary key. Lock: the write lock.
INSERT OR REPLACE INTO known_organizations (id, uid) VALUES (?1, ?2);
