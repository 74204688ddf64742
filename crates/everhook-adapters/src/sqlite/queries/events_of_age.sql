-- Which events come after an id and were made before another could be?
-- Index: the primary key. Lock: none, a snapshot.
SELECT id FROM events WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3;
