-- What is sealed of the next applications that are called?
-- Index: the primary key. Lock: none.
SELECT application_id, secret, previous_secret FROM application_secrets WHERE application_id > $1 ORDER BY application_id LIMIT $2;
