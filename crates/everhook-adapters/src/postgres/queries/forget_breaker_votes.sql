-- Removes some votes of nodes that had no calls since an instant.
-- Index: breaker_votes_by_age, then the primary key. Lock: the rows.
DELETE FROM breaker_votes v USING (SELECT lane_id, node FROM breaker_votes WHERE called_at < $1 ORDER BY called_at LIMIT $2) AS old
WHERE v.lane_id = old.lane_id AND v.node = old.node;
