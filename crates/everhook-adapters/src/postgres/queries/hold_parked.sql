-- Holds deliveries that were made parked behind those before them: what they waited for has come.
-- Index: the primary key; enters held_in_order, leaves the indexes of what is parked. Lock: the lanes and the rows, taken by the caller.
UPDATE open_deliveries o SET stage = 4, parked_organization_id = NULL, waits_for = NULL
FROM unnest($1::bigint[], $2::uuid[]) AS u (lane, id)
WHERE o.lane = u.lane AND o.id = u.id AND o.stage = 5;
