-- Which migrations were applied? The ledger itself is the one table that is made outside of them.
-- Index: none. Lock: the name, until the commit; somebody else who makes it at this moment is waited for, and then it is there.
CREATE TABLE IF NOT EXISTS schema_migrations (
    version bigint PRIMARY KEY,
    hash bytea NOT NULL,
    applied_at bigint NOT NULL
);
