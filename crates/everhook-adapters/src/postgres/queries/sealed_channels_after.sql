-- What is sealed of the next channels?
-- Index: the primary key. Lock: none.
SELECT id, credentials FROM channels WHERE id > $1 AND credentials IS NOT NULL ORDER BY id LIMIT $2;
