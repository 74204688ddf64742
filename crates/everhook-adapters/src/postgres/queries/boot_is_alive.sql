-- Is this boot alive?
-- Index: the primary key. Lock: none.
SELECT 1 FROM boots WHERE id = $1;
