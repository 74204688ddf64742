-- Removes some records of jobs that are old.
-- Index: jobs_by_age, the primary key. Lock: the rows.
DELETE FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM jobs WHERE begun_at < $1 ORDER BY begun_at LIMIT $2));
