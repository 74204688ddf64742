-- How does a dead letter of an organization stand, before it is changed?
-- Index: the primary key. Lock: the row, until the commit.
SELECT status FROM dead_letters WHERE id = $2 AND organization_id = $1 FOR NO KEY UPDATE;
