-- Up to which endpoint are the next few after an id?
-- Index: the primary key. Lock: none.
SELECT id AS until FROM (SELECT id FROM lanes WHERE id > $1 ORDER BY id LIMIT $2) AS few ORDER BY id DESC LIMIT 1;
