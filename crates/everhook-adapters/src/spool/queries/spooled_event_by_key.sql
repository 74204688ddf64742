-- Which event with this key waits, and what does it say?
-- Index: spooled_events_by_key. Lock: the write lock.
SELECT id, event_type, encoding, body FROM spooled_events WHERE application_id = ?1 AND idempotency_key = ?2;
