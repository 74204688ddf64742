-- Is this boot alive?
-- Index: the primary key. Lock: the row, against being deleted, until the commit.
SELECT 1 FROM boots WHERE id = $1 FOR KEY SHARE;
