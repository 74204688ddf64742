-- Notes how far the deletion of an application's endpoints is.
-- Index: the primary key. Lock: the row, taken by the caller before.
UPDATE deletions SET reached = $2 WHERE id = $1;
