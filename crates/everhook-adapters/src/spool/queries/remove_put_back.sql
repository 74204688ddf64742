-- Removes what was put back from what could not be forwarded.
-- Index: the primary key, spooled_events_by_key. Lock: the write lock.
DELETE FROM unforwarded
WHERE position > ?1 AND position <= ?2 AND EXISTS (
    SELECT 1 FROM spooled_events w
    WHERE w.application_id = unforwarded.application_id AND w.idempotency_key = unforwarded.idempotency_key AND w.id = unforwarded.id
);
