-- Which of some endpoints were deleted before an instant, and are named by nothing that is kept? Not the newest: lane numbers are never given again.
-- Index: the primary keys, endpoints_by_lane, deliveries_by_lane, dead_letters_by_endpoint. Lock: the write lock, taken by the caller.
SELECT p.id, p.lane
FROM endpoints p
WHERE p.id > ?1 AND p.id <= ?2 AND p.state = 'deleted' AND p.deleted_at < ?3
    AND p.lane < (SELECT max(lane) FROM lanes)
    AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.lane = p.lane)
    AND NOT EXISTS (SELECT 1 FROM dead_letters l WHERE l.endpoint_id = p.id)
    AND NOT EXISTS (SELECT 1 FROM rollups u WHERE u.lane = p.lane)
    AND NOT EXISTS (SELECT 1 FROM endpoint_revisions r WHERE r.endpoint_id = p.id AND r.number < p.revision)
LIMIT ?4;
