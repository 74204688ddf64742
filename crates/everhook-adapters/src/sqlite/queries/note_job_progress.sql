-- Keeps how far an app says that it is with a job, if that has not ended, and the app did not say so a moment ago.
-- Index: the primary keys of jobs and deliveries. Lock: the write lock.
UPDATE jobs SET progress = ?3, progress_message = ?4, progress_at = ?5
WHERE id = ?1 AND delivery_id = ?2 AND outcome IS NULL AND (progress_at IS NULL OR progress_at <= ?6)
    AND EXISTS (SELECT 1 FROM deliveries d WHERE d.id = ?2 AND d.stage IN (0, 4, 5));
