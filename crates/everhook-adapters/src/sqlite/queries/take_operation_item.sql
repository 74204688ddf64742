-- Takes an item off an operation's list.
-- Index: the primary key. Lock: the write lock.
DELETE FROM operation_items WHERE operation_id = ?1 AND position = ?2 AND lane = ?3;
