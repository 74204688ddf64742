-- Under which number do deliveries name an endpoint?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT lane FROM lanes WHERE id = ?1;
