-- What does an operation erase next?
-- Index: the primary key. Lock: none.
SELECT event_id FROM erasure_items WHERE operation_id = $1 ORDER BY event_id LIMIT $2;
