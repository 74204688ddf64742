-- What is sealed of some approvals, and for whom?
-- Index: the primary key. Lock: none.
SELECT id, lane_id, call, data FROM approvals WHERE id = ANY ($1) ORDER BY id;
