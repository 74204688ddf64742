-- Makes the channel of an e-mail address.
-- Index: the primary key, the unique key (organization_id, name). Lock: the row.
INSERT INTO channels (id, organization_id, kind, name, retry_schedule, is_admin) VALUES ($1, $2, 'email', $3, $4, $5);
