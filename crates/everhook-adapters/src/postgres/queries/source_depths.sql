-- How much waits for the processors of sources, counted up to a limit each?
-- Index: lanes_of_processors, waiting_by_lane. Lock: none.
SELECT l.lane, s.id, s.organization_id, s.application_id, (
    SELECT count(*) FROM (SELECT 1 FROM open_deliveries d WHERE d.stage = 0 AND d.lane = l.lane LIMIT $2) AS counted_rows
) AS value
FROM lanes l JOIN sources s ON s.id = l.id
WHERE l.kind = 'processor' AND l.lane > $1 AND s.processor IS NOT NULL
ORDER BY l.lane
LIMIT $3;
