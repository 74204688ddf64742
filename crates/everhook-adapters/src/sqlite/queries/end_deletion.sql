-- Notes that nothing is left to be deleted of an organization or application.
-- Index: the primary key. Lock: the write lock.
DELETE FROM deletions WHERE id = ?1;
