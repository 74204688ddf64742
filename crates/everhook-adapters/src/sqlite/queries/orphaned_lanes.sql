-- Which lanes of processors that were removed have deliveries that have not ended?
-- Index: lanes_of_processors, the primary key of sources, open_in_order. Lock: none, a snapshot.
SELECT l.id, l.organization_id, l.application_id
FROM lanes l INDEXED BY lanes_of_processors
WHERE l.kind = 'processor'
    AND NOT EXISTS (SELECT 1 FROM sources s WHERE s.id = l.id AND s.processor IS NOT NULL)
    AND EXISTS (SELECT 1 FROM deliveries d INDEXED BY open_in_order WHERE d.order_position IS NOT NULL AND d.stage IN (0, 4, 5) AND d.lane = l.lane)
ORDER BY l.lane
LIMIT ?1;
