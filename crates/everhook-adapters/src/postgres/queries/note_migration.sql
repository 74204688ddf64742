-- Notes that a migration was applied.
-- Index: the primary key. Lock: the one on migrations, taken by the caller.
INSERT INTO schema_migrations (version, hash, applied_at) VALUES ($1, $2, $3);
