-- What is sealed of some events?
-- Index: the primary keys of the partitions. Lock: none.
SELECT id, body, received_headers FROM events WHERE id = ANY($1) AND erased_at IS NULL ORDER BY id;
