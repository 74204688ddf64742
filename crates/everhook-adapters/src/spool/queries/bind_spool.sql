-- Binds the spool to a database, in place of the one that it was bound to.
-- Index: the primary key. Lock: the write lock.
INSERT INTO binding (singleton, installation) VALUES (1, ?1) ON CONFLICT (singleton) DO UPDATE SET installation = excluded.installation;
