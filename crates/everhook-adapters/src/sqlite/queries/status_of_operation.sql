-- How does an operation stand?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT status FROM operations WHERE id = ?1;
