-- Forgets some events of an operation that has ended.
-- Index: the primary key. Lock: the write lock.
DELETE FROM erasure_items
WHERE operation_id = ?1 AND event_id IN (SELECT event_id FROM erasure_items WHERE operation_id = ?1 LIMIT ?2);
