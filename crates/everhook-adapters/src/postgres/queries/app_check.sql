-- How is the health of an application checked?
-- Index: the primary key. Lock: none.
SELECT application_id, organization_id, url, next_at, status, checked_at, took, failures, failing_since, detail, checks
FROM app_checks WHERE application_id = $1;
