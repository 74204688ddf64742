-- How does the dead letter of an event and an endpoint stand?
-- Index: the unique key (event_id, endpoint_id). Lock: the write lock, taken by the caller.
SELECT status FROM dead_letters WHERE event_id = ?1 AND endpoint_id = ?2;
