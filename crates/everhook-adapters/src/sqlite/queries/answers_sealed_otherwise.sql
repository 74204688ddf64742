-- Which answers between two places are not sealed with a key? Its id follows the first byte. Those of one instant are all on the same side of a place.
-- Index: cached_answers_by_age. Lock: none.
SELECT lane_id, hash FROM cached_answers
WHERE (lane_id, stored_at) > (?1, ?2) AND (lane_id, stored_at) <= (?3, ?4) AND substr(data, 2, 4) <> ?5
ORDER BY lane_id, hash;
