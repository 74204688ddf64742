-- Keeps what a health check found, if the application still has one.
-- Index: the primary key. Lock: the row.
UPDATE app_checks SET status = $2, checked_at = $3, took = $4, failures = $5, failing_since = $6, detail = $7, checks = $8
WHERE application_id = $1;
