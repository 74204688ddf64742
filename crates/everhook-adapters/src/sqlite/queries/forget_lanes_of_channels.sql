-- Removes those of some lanes that are of channels, processors, applications or organizations that were removed, if nothing that is kept names them. Not the newest: lane numbers are never given again.
-- Index: lanes_by_id, the primary keys, deliveries_by_lane, dead_letters_by_endpoint. Lock: the write lock.
DELETE FROM lanes WHERE lane IN (
    SELECT l.lane FROM lanes l
    WHERE l.id > ?1 AND l.id <= ?2 AND l.kind <> 'endpoint' AND l.lane < (SELECT max(lane) FROM lanes)
        AND NOT EXISTS (SELECT 1 FROM applications a WHERE a.id = l.application_id AND l.kind IN ('capability', 'application'))
        AND NOT EXISTS (SELECT 1 FROM organizations g WHERE g.id = l.id AND g.deleted_at IS NULL)
        AND NOT EXISTS (SELECT 1 FROM channels c WHERE c.id = l.id)
        AND NOT EXISTS (SELECT 1 FROM sources s WHERE s.id = l.id AND s.processor IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.lane = l.lane)
        AND NOT EXISTS (SELECT 1 FROM dead_letters t WHERE t.endpoint_id = l.id)
        AND NOT EXISTS (SELECT 1 FROM rollups r WHERE r.lane = l.lane)
)
RETURNING id, lane;
