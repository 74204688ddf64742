-- Makes a channel.
-- Index: the primary key, the unique key (organization_id, kind, address). Lock: the write lock.
INSERT INTO channels (id, organization_id, kind, address, retry_schedule) VALUES (?1, ?2, 'email', ?3, ?4);
