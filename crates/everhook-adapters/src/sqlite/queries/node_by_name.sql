-- Under which number do attempts name a node and its version?
-- Index: the unique key (name, user_agent). Lock: the write lock, taken by the caller.
SELECT number FROM nodes WHERE name = ?1 AND user_agent = ?2;
