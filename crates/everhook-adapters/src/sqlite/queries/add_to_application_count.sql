-- An organization has one more application.
-- Index: the primary key. Lock: the write lock.
UPDATE organizations SET application_count = application_count + 1 WHERE id = ?1;
