-- Which migrations were applied? The ledger itself is the one table that is made outside of them.
-- Index: none. Lock: the one on migrations, taken by the caller.
CREATE TABLE IF NOT EXISTS schema_migrations (
    version bigint PRIMARY KEY,
    hash bytea NOT NULL,
    applied_at bigint NOT NULL
);
