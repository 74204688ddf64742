-- Removes the oldest answers of a lane.
-- Index: cached_answers_by_age. Lock: the write lock.
DELETE FROM cached_answers WHERE rowid IN (SELECT rowid FROM cached_answers WHERE lane_id = ?1 ORDER BY stored_at LIMIT ?2);
