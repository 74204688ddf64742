-- How much waits for the processors of sources, counted up to a limit each?
-- Index: lanes_of_processors, waiting_by_lane. Lock: none, a snapshot.
SELECT l.lane, s.id, s.organization_id, s.application_id, (
    SELECT count(*) FROM (SELECT 1 FROM deliveries d INDEXED BY waiting_by_lane WHERE d.stage = 0 AND d.lane = l.lane LIMIT ?2) AS counted_rows
) AS value
FROM lanes l INDEXED BY lanes_of_processors
    CROSS JOIN sources s ON s.id = l.id
WHERE l.kind = 'processor' AND l.lane > ?1 AND s.processor IS NOT NULL
ORDER BY l.lane
LIMIT ?3;
