-- Deletes what signed the requests to a deleted application.
-- Index: the primary key. Lock: the write lock.
DELETE FROM application_secrets WHERE application_id = ?1;
