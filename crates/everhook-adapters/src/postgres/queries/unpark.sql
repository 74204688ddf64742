-- Lets parked deliveries wait, and says what becomes of each if the time for what it waited for is over.
-- Index: the primary key; enters waiting_by_lane, leaves the indexes of what is parked. Lock: the rows, taken by the caller.
UPDATE open_deliveries o SET stage = 0, due_at = $4, parked_organization_id = NULL, waits_for = NULL, expires_at = NULL, expires_into = u.expires_into
FROM unnest($1::bigint[], $2::uuid[], $3::text[]) AS u (lane, id, expires_into)
WHERE o.lane = u.lane AND o.id = u.id AND o.stage = 5;
