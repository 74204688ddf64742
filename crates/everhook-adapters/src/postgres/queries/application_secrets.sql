-- What signs the requests to an application?
-- Index: the primary key. Lock: none, a snapshot.
SELECT secret, previous_secret, previous_secret_until FROM application_secrets WHERE application_id = $1;
