-- Which payloads are next, how are they kept, and how large are they? A size is known without reading what it is of.
-- Index: the primary key. Lock: none.
SELECT number, event_id, encoding, length(body) AS bytes FROM payloads WHERE number > ?1 ORDER BY number LIMIT ?2;
