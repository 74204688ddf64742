-- What is sealed of the next endpoints?
-- Index: the primary key. Lock: none.
SELECT id, headers, secret, previous_secret FROM endpoints WHERE id > ?1 ORDER BY id LIMIT ?2;
