-- Notes that nothing is left to be deleted of an organization or application.
-- Index: the primary key. Lock: the row, taken by the caller before.
DELETE FROM deletions WHERE id = $1;
