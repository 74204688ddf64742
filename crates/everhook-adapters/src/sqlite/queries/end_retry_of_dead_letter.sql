-- Notes that the delivery which brought a dead letter back was delivered (`resolved`) or cancelled (`dead` again).
-- Index: the primary key of deliveries, the primary key of lanes, the unique key (event_id, endpoint_id). Lock: the write lock.
UPDATE dead_letters SET status = ?2, attempts = attempts + ?3
WHERE (event_id, endpoint_id) = (SELECT d.event_id, p.id FROM deliveries d JOIN lanes p ON p.lane = d.lane WHERE d.id = ?1)
    AND last_delivery_id = ?1 AND status = 'retrying';
