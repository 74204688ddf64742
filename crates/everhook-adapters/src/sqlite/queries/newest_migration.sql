-- Which version does this file have? 0 for a new one.
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT coalesce(max(version), 0) FROM schema_migrations;
