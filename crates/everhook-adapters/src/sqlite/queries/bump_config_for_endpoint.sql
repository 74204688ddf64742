-- An application's configuration has so many bytes more or fewer, because of one endpoint. Its version is among the counters that the transaction keeps.
-- Index: the primary key. Lock: the write lock.
UPDATE applications SET config_bytes = config_bytes + ?2 WHERE id = ?1;
