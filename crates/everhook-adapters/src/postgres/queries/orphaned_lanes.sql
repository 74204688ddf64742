-- Which lanes of processors that were removed have deliveries that have not ended?
-- One look-up each for every lane of a processor: joined, all sources and all that is open would be read.
-- Index: lanes_of_processors, the primary key of sources or their index by organization, open_by_position. Lock: none.
SELECT l.id, l.organization_id, l.application_id
FROM lanes l
WHERE l.kind = 'processor'
    AND (SELECT s.processor FROM sources s WHERE s.organization_id = l.organization_id AND s.id = l.id) IS NULL
    AND (SELECT true FROM open_deliveries d WHERE d.order_position IS NOT NULL AND d.lane = l.lane ORDER BY d.order_position LIMIT 1) IS TRUE
ORDER BY l.lane
LIMIT $1;
