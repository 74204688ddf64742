-- How far did an app say last that it is with a job that has not ended?
-- Index: the primary keys of jobs and open_deliveries, lanes_by_id. Lock: none, a snapshot.
SELECT progress, progress_message, progress_at
FROM jobs WHERE id = $1 AND delivery_id = $2 AND outcome IS NULL AND progress IS NOT NULL
    AND EXISTS (SELECT FROM open_deliveries o WHERE o.lane = (SELECT l.lane FROM lanes l WHERE l.id = jobs.lane_id) AND o.id = $2);
