-- What does an operation do next?
-- Index: the primary key, lanes_pkey. Lock: none. `OFFSET 0` keeps the order of the primary key.
SELECT i.position, i.event_id, i.lane, p.id AS endpoint_id, p.application_id, i.replay_of
FROM operation_items i CROSS JOIN LATERAL (SELECT id, application_id FROM lanes WHERE lane = i.lane OFFSET 0) p
WHERE i.operation_id = $1
ORDER BY i.position, i.lane
LIMIT $2;
