-- Which deliveries of an event come after an id, in the order of their ids?
-- Index: the primary key for those that were made with the event, made_later_by_event for the others, the primary key of lanes. Lock: the write lock, taken by
-- the caller.
SELECT found.id, found.stage, found.replay_of, found.attempts, found.order_key IS NOT NULL AS ordered, p.id AS endpoint_id, p.application_id
FROM (
        SELECT o.id, o.lane, o.stage, o.replay_of, o.attempts, o.order_key
        FROM events v CROSS JOIN deliveries o ON o.id BETWEEN v.first_delivery_id AND v.last_delivery_id
        WHERE v.id = ?1 AND o.event_id = ?1 AND o.replay_of IS NULL AND o.operation_id IS NULL AND o.id > ?2
        UNION ALL
        SELECT id, lane, stage, replay_of, attempts, order_key FROM deliveries INDEXED BY made_later_by_event
        WHERE event_id = ?1 AND (replay_of IS NOT NULL OR operation_id IS NOT NULL) AND id > ?2
    ) found
    JOIN lanes p ON p.lane = found.lane
ORDER BY found.id
LIMIT ?3;
