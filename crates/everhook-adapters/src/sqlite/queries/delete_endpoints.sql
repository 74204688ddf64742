-- Deletes some endpoints of an application that was deleted; which of them were not deleted before, and does anything wait for them?
-- Index: endpoints_by_application; waiting_by_lane, open_by_position. Lock: the write lock.
UPDATE endpoints SET state = 'deleted', deleted_at = ?4, updated_at = ?4, disabled_at = NULL, disabled_reason = NULL
WHERE application_id = ?1 AND id > ?2 AND id <= ?3 AND state <> 'deleted'
RETURNING id, EXISTS (SELECT 1 FROM deliveries d WHERE d.lane = endpoints.lane AND d.stage = 0)
    OR EXISTS (SELECT 1 FROM deliveries d WHERE d.lane = endpoints.lane AND d.order_position IS NOT NULL AND d.stage IN (0, 4)) AS is_awaited;
