-- Keeps nodes from beginning until the commit.
-- Index: none. Lock: the table, against writing.
LOCK TABLE boots IN SHARE ROW EXCLUSIVE MODE;
