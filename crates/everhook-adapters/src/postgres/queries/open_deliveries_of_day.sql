-- Which deliveries between two ids are open, and how many attempts has each?
-- Index: the primary key, in each lane. Lock: none.
SELECT o.id, o.attempts
FROM endpoints p CROSS JOIN LATERAL (SELECT id, attempts FROM open_deliveries WHERE lane = p.lane AND id > $1 AND id < $2 OFFSET 0) o
ORDER BY o.id
LIMIT $3;
