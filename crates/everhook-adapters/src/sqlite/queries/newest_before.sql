-- Which is the newest event or delivery before an id?
-- Index: the primary keys. Lock: none.
SELECT max(id) FROM (SELECT max(id) AS id FROM events WHERE id < ?1 UNION ALL SELECT max(id) FROM deliveries WHERE id < ?1);
