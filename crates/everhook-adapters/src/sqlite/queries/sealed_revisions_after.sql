-- What is sealed of the next revisions of endpoints?
-- Index: the primary key. Lock: none.
SELECT endpoint_id, number, headers, secret, previous_secret FROM endpoint_revisions
WHERE (endpoint_id, number) > (?1, ?2) ORDER BY endpoint_id, number LIMIT ?3;
