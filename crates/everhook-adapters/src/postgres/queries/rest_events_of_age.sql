-- Which events that no day has a partition for come after an id and before another?
-- Index: the primary key of events_rest. Lock: none.
SELECT id FROM events_rest WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3;
