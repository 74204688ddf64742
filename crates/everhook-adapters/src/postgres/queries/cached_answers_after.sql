-- Which answers are next?
-- Index: cached_answers_by_age. Lock: none.
SELECT lane_id, stored_at FROM cached_answers WHERE (lane_id, stored_at) > ($1, $2) ORDER BY lane_id, stored_at LIMIT $3;
