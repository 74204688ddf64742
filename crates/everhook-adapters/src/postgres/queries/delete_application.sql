-- Deletes an application that is not built in, with its counters: whoever records an event of it finds none.
-- Index: the primary keys. Lock: the rows; the organization and the counters are taken by the caller before.
WITH gone AS (DELETE FROM applications WHERE organization_id = $1 AND id = $2 AND kind = 'custom' RETURNING id)
DELETE FROM application_counters WHERE application_id IN (SELECT id FROM gone);
