-- Forgets some items of an operation that has ended.
-- Index: the primary key. Lock: the write lock.
DELETE FROM operation_items
WHERE operation_id = ?1 AND (position, lane) IN (SELECT position, lane FROM operation_items WHERE operation_id = ?1 LIMIT ?2);
