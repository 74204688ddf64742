-- Forgets deliveries that have been made.
-- Index: the primary key. Lock: the write lock.
DELETE FROM unfinished_fanouts WHERE event_id = ?1 AND step = ?2;
