-- What is sealed of the next sources?
-- Index: the primary key. Lock: none.
SELECT id, secrets, verify_token FROM sources WHERE id > ?1 ORDER BY id LIMIT ?2;
