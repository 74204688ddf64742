-- Deletes the manifest of a deleted application.
-- Index: the primary key. Lock: the write lock.
DELETE FROM manifests WHERE application_id = ?1;
