-- Deletes the health check of an application that was deleted, or whose manifest names no health page any more.
-- Index: the primary key. Lock: the write lock.
DELETE FROM app_checks WHERE application_id = ?1;
