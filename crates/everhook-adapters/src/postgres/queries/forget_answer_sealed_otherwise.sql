-- Removes an answer, unless another one that is sealed with the key took its place.
-- Index: the unique key (lane_id, hash). Lock: the row.
DELETE FROM cached_answers WHERE lane_id = $1 AND hash = $2 AND substr(data, 2, 4) <> $3;
