-- Keeps what signs the requests to an application from now on.
-- Index: the primary key. Lock: the write lock.
INSERT INTO application_secrets (application_id, organization_id, secret, previous_secret, previous_secret_until) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (application_id) DO UPDATE SET
    secret = excluded.secret, previous_secret = excluded.previous_secret, previous_secret_until = excluded.previous_secret_until;
