-- Replaces what an app said about a job by the same, sealed otherwise, unless somebody changed it.
-- Index: the primary key. Lock: the write lock.
UPDATE jobs SET answer = ?2 WHERE id = ?1 AND answer = ?3;
