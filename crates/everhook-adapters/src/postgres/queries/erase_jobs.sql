-- Removes what is kept of jobs whose events are erased.
-- Index: the primary key. Lock: the rows.
DELETE FROM jobs WHERE id = ANY ($1);
