-- Replaces the kept headers of a received event by the same, sealed otherwise, unless they were erased.
-- Index: the primary key. Lock: the write lock.
UPDATE received_events SET headers = ?2 WHERE event_id = ?1 AND headers IS NOT NULL;
