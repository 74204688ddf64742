-- What is sealed of a job, and for whom?
-- Index: the primary key. Lock: none.
SELECT lane_id, answer FROM jobs WHERE id = ?1;
