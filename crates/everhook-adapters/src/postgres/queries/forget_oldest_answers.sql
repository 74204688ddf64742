-- Removes the oldest answers of a lane.
-- Index: cached_answers_by_age. Lock: the rows.
DELETE FROM cached_answers WHERE ctid = ANY (ARRAY(SELECT ctid FROM cached_answers WHERE lane_id = $1 ORDER BY stored_at LIMIT $2));
