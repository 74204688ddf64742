-- Forgets some items of an operation that has ended.
-- Index: the primary key, then the places of the rows: nobody changes an item. Lock: the rows, held by the operation's before them.
DELETE FROM operation_items
WHERE ctid = ANY (ARRAY(SELECT ctid FROM operation_items WHERE operation_id = $1 ORDER BY position, lane LIMIT $2));
