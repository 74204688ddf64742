-- Throws the dead letter of an event and an endpoint away, if it is dead. It stays in history.
-- Index: the unique key (event_id, endpoint_id). Lock: the write lock.
UPDATE dead_letters SET status = 'discarded' WHERE event_id = ?1 AND endpoint_id = ?2 AND status = 'dead';
