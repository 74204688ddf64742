-- Which event has this id, and with it the idempotency key that was made for it, since an instant? What did it say, if that was not erased?
-- Index: the primary keys. Lock: the write lock, taken by the caller.
SELECT e.id, e.deliveries, e.sequence_number, e.event_type, p.encoding, p.body
FROM events e LEFT JOIN payloads p ON p.number = e.payload AND p.event_id = e.id
WHERE e.id = ?2 AND e.application_id = ?1 AND e.idempotency_key IS NULL AND e.created_at >= ?3;
