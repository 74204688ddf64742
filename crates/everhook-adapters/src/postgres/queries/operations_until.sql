-- Up to which operation are the next few after an id that were begun before another could be?
-- Index: the primary key. Lock: none.
SELECT id AS until FROM (SELECT id FROM operations WHERE id > $1 AND id < $3 ORDER BY id LIMIT $2) AS few ORDER BY id DESC LIMIT 1;
