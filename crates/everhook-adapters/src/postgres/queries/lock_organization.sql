-- Holds up other changes of an organization's configuration. Was it deleted? One that is not there yet is known to nobody else.
-- Index: the primary key. Lock: the row, until the commit.
SELECT deleted_at IS NOT NULL AS is_deleted FROM organizations WHERE id = $1 FOR NO KEY UPDATE;
