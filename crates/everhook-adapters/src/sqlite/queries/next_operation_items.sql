-- What does an operation do next?
-- Index: the primary key, the primary key of lanes. Lock: none, a snapshot.
SELECT i.position, i.event_id, i.lane, p.id AS endpoint_id, p.application_id, i.replay_of
FROM operation_items i JOIN lanes p ON p.lane = i.lane
WHERE i.operation_id = ?1
ORDER BY i.position, i.lane
LIMIT ?2;
