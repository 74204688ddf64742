-- Deletes some endpoints of an application that was deleted; which of them were not deleted before, and does anything wait for them?
-- Index: endpoints_by_application; the primary key of open_deliveries. Lock: the rows; the organization is taken by the caller before.
UPDATE endpoints SET state = 'deleted', deleted_at = $4, updated_at = $4, disabled_at = NULL, disabled_reason = NULL
WHERE application_id = $1 AND id > $2 AND id <= $3 AND state <> 'deleted'
RETURNING id, (SELECT true FROM open_deliveries d WHERE d.lane = endpoints.lane LIMIT 1) IS NOT NULL AS is_awaited;
