-- Notes that a dead letter is brought back by a new delivery.
-- Index: the primary key. Lock: the write lock.
UPDATE dead_letters SET status = 'retrying', last_delivery_id = ?2, requeued_at = ?3 WHERE id = ?1;
