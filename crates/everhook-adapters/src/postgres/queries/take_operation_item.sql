-- Takes items off an operation's list; which of them were on it?
-- Index: the primary key. Lock: the rows, held by the operation's before them.
DELETE FROM operation_items i
USING unnest($2::bigint[], $3::bigint[]) AS t (position, lane)
WHERE i.operation_id = $1 AND i.position = t.position AND i.lane = t.lane
RETURNING i.position, i.lane;
