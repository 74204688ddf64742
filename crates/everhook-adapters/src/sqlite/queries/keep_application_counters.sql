-- Writes back where an application's configuration and its sequence stand.
-- Index: the primary key. Lock: the write lock.
UPDATE applications SET config_version = ?2, next_sequence = ?3 WHERE id = ?1;
