-- Keeps what an app said about a job, if it is the first to be said and the delivery has not ended. A contract test has none: it names itself.
-- Index: the primary keys of jobs and open_deliveries, lanes_by_id. Lock: the row.
UPDATE jobs SET outcome = $3, answer = $4, answer_hash = $5, answered_at = $6, found_by = NULL
WHERE id = $1 AND delivery_id = $2 AND outcome IS NULL
    AND (delivery_id = id OR EXISTS (SELECT FROM open_deliveries o WHERE o.lane = (SELECT l.lane FROM lanes l WHERE l.id = jobs.lane_id) AND o.id = $2));
