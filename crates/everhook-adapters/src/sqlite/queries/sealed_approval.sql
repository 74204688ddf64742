-- What is sealed of an approval, and for whom?
-- Index: the primary key. Lock: none.
SELECT lane_id, call, data FROM approvals WHERE id = ?1;
