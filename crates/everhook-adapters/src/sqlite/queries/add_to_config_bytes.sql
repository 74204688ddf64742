-- An application has so many bytes of configuration more, or fewer.
-- Index: the primary key. Lock: the write lock.
UPDATE applications SET config_bytes = config_bytes + ?2 WHERE id = ?1;
