-- How far did an app say last that it is with a job that has not ended?
-- Index: the primary keys of jobs and deliveries. Lock: none, a snapshot.
SELECT progress, progress_message, progress_at
FROM jobs WHERE id = ?1 AND delivery_id = ?2 AND outcome IS NULL AND progress IS NOT NULL
    AND EXISTS (SELECT 1 FROM deliveries d WHERE d.id = ?2 AND d.stage IN (0, 4, 5));
