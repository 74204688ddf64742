-- Which event with this key waits?
-- Index: spooled_events_by_key. Lock: the write lock.
SELECT id FROM spooled_events WHERE application_id = ?1 AND idempotency_key = ?2;
