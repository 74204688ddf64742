-- Removes what is kept of a job whose event is erased.
-- Index: the primary key. Lock: the write lock.
DELETE FROM jobs WHERE id = ?1;
