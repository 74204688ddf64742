-- Which migrations were applied? The ledger itself is the one table that is made outside of them.
-- Index: none. Lock: the write lock.
CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;
