-- Holds up other changes of an organization's configuration. One that is not there yet is known to nobody else.
-- Index: the primary key. Lock: the row, until the commit.
SELECT 1 FROM organizations WHERE id = $1 FOR NO KEY UPDATE;
