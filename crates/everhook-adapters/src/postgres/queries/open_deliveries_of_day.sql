-- Which deliveries between two ids are open, and of which events?
-- Index: the primary key, in each lane. Lock: none.
SELECT o.id, o.event_id
FROM lanes p CROSS JOIN LATERAL (SELECT id, event_id FROM open_deliveries WHERE lane = p.lane AND id > $1 AND id < $2 OFFSET 0) o
ORDER BY o.id
LIMIT $3;
