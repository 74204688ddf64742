-- The last health check of which apps failed, after an id?
-- Index: failing_apps. Lock: none.
SELECT application_id AS id, organization_id, failures AS value
FROM app_checks
WHERE failures > 0 AND application_id > $1
ORDER BY application_id
LIMIT $2;
