-- Takes an event off the list of an operation that erases.
-- Index: the primary key. Lock: the write lock.
DELETE FROM erasure_items WHERE operation_id = ?1 AND event_id = ?2;
