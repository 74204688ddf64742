-- Keeps what an app said about a job, if it is the first to be said and the delivery has not ended. A contract test has none: it names itself.
-- Index: the primary keys of jobs and deliveries. Lock: the write lock.
UPDATE jobs SET outcome = ?3, answer = ?4, answer_hash = ?5, answered_at = ?6, found_by = NULL
WHERE id = ?1 AND delivery_id = ?2 AND outcome IS NULL
    AND (delivery_id = id OR EXISTS (SELECT 1 FROM deliveries d WHERE d.id = ?2 AND d.stage IN (0, 4, 5)));
