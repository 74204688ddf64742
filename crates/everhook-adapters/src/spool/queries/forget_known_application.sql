-- Forgets an application.
-- Index: the primary key. Lock: the write lock.
DELETE FROM known_applications WHERE id = ?1;
