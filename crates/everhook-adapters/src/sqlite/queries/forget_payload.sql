-- Forgets the data of an event that turned out to be recorded already.
-- Index: the primary key. Lock: the write lock.
DELETE FROM payloads WHERE number = ?1;
