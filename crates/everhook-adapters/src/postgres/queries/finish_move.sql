-- Says that a data folder is all here: from now on nodes may start.
-- Index: the primary key. Lock: the row.
UPDATE moves SET finished_at = $1;
