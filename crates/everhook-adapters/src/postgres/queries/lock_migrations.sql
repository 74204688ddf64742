-- Lets one node at a time bring the schema up to date. In a new database there is no row yet: whoever made the ledger has the turn until the commit.
-- Index: the primary key. Lock: the row, until the commit.
SELECT 1 FROM schema_migrations WHERE version = 1 FOR UPDATE;
