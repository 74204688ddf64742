-- Forgets all applications.
-- Index: none. Lock: the write lock.
DELETE FROM known_applications;
