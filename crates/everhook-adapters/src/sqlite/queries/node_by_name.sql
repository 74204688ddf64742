-- Under which number do attempts name a node?
-- Index: the unique key (name). Lock: the write lock, taken by the caller.
SELECT number FROM nodes WHERE name = ?1;
