-- By which numbers do deliveries name these endpoints?
-- Index: the primary key. Lock: none.
SELECT id, lane FROM lanes WHERE id = ANY($1);
