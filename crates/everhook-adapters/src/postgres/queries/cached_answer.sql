-- Which answer is kept under a key?
-- Index: the unique key (lane_id, hash). Lock: none, a snapshot.
SELECT lane_id, hash, data, stored_at, expires_at FROM cached_answers WHERE lane_id = $1 AND hash = $2;
