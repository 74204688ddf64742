-- Notes that all deliveries of an erased event are done.
-- Index: the primary key. Lock: the write lock.
DELETE FROM unfinished_erasures WHERE event_id = ?1;
