-- Notes that a node's breaker has opened.
-- Index: the primary key. Lock: the row, which is this node's alone.
INSERT INTO breaker_votes (lane_id, node, called_at, opened_until, has_answers) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (lane_id, node) DO UPDATE SET called_at = greatest(breaker_votes.called_at, excluded.called_at), opened_until = excluded.opened_until,
    has_answers = excluded.has_answers;
