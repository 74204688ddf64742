-- Notes that the delivery which brought a dead letter back was delivered (`resolved`) or cancelled (`dead` again).
-- Index: the primary key. Lock: the write lock.
UPDATE dead_letters SET status = ?3, attempts = attempts + ?4
WHERE id = ?1 AND last_delivery_id = ?2 AND status = 'retrying';
