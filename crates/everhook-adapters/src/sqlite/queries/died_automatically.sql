-- Had a delivery that died been made because its dead letter came back by itself?
-- Index: the primary key of deliveries, the primary key of lanes, the unique key (event_id, endpoint_id). Lock: the write lock, taken by the caller.
SELECT EXISTS (
    SELECT 1 FROM dead_letters
    WHERE (event_id, endpoint_id) = (SELECT d.event_id, p.id FROM deliveries d JOIN lanes p ON p.lane = d.lane WHERE d.id = ?1)
        AND automatic_delivery_id = ?1
);
