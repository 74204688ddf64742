-- Forgets how an event came in.
-- Index: the primary key; leaves received_by_source and received_by_user. Lock: the write lock.
DELETE FROM received_events WHERE event_id = ?1;
