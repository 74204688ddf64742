-- Which deliveries in some pages of a day's partition are of events that are there?
-- Index: none, these pages are read; the primary key of events. Lock: none.
SELECT c.lane, c.id
FROM {deliveries} c CROSS JOIN LATERAL (SELECT 1 FROM events WHERE id = c.event_id OFFSET 0) e
WHERE c.ctid >= '({page},0)' AND c.ctid < '({until},0)';
