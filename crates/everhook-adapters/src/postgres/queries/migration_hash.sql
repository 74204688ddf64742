-- By which statements was this version made?
-- Index: the primary key. Lock: the one on migrations, taken by the caller.
SELECT hash FROM schema_migrations WHERE version = $1;
