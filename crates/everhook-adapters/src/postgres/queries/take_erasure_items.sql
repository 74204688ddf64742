-- Takes events off the list of an operation that erases; which of them were on it?
-- Index: the primary key. Lock: the rows, held by the operation's before them.
DELETE FROM erasure_items WHERE operation_id = $1 AND event_id = ANY($2) RETURNING event_id;
