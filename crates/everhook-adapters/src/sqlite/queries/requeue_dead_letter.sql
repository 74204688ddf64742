-- Notes that a dead letter is brought back by a new delivery.
-- Index: the unique key (event_id, endpoint_id). Lock: the write lock.
UPDATE dead_letters SET status = 'retrying', last_delivery_id = ?3, requeued_at = ?4, automatic_delivery_id = ?5
WHERE event_id = ?1 AND endpoint_id = ?2 AND status = 'dead';
