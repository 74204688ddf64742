-- Says by which version of a retry schedule is retried what is sent to the lane of a capability from now on.
-- Index: lanes_by_id. Lock: the write lock.
UPDATE lanes SET job_schedule = ?2 WHERE id = ?1 AND job_schedule IS NOT ?2;
