-- Removes what is kept of a contract test, which names itself as its delivery.
-- Index: the primary key. Lock: the write lock.
DELETE FROM jobs WHERE id = ?1 AND delivery_id = id;
