-- Forgets all organizations.
-- Index: none. Lock: the write lock.
DELETE FROM known_organizations;
