-- What became of each delivery of an event, oldest first for each endpoint?
-- Index: the primary key for those that were made with the event, made_later_by_event for the others, the primary key of lanes. Lock: none, a snapshot.
SELECT found.id, p.id AS endpoint_id, found.stage
FROM (
        SELECT id, lane, stage FROM deliveries
        WHERE id BETWEEN ?2 AND ?3 AND event_id = ?1 AND replay_of IS NULL AND operation_id IS NULL
        UNION ALL
        SELECT id, lane, stage FROM deliveries INDEXED BY made_later_by_event
        WHERE event_id = ?1 AND (replay_of IS NOT NULL OR operation_id IS NOT NULL)
    ) found
    JOIN lanes p ON p.lane = found.lane
ORDER BY found.id;
