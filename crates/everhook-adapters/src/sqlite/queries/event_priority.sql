-- How urgent is an event?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT priority FROM events WHERE id = ?1;
