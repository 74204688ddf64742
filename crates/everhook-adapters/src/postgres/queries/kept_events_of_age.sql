-- Which events that outlived their day come after an id and before another?
-- Index: the primary key of events_kept. Lock: none.
SELECT id FROM events_kept WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3;
