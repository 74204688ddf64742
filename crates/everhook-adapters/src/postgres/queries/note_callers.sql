-- Notes that a node has calls of these capabilities. What it has voted stays.
-- Index: the primary key. Lock: the rows, which are this node's alone.
INSERT INTO breaker_votes (lane_id, node, called_at) SELECT unnest($2::uuid[]), $1, $3
ON CONFLICT (lane_id, node) DO UPDATE SET called_at = greatest(breaker_votes.called_at, excluded.called_at);
