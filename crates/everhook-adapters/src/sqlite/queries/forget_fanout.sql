-- Forgets the deliveries of an event that are still to be made.
-- Index: the primary key. Lock: the write lock.
DELETE FROM unfinished_fanouts WHERE event_id = ?1;
