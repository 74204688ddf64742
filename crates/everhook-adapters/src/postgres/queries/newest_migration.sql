-- Which version does this database have? 0 for a new one.
-- Index: the primary key. Lock: the one on migrations, taken by the caller.
SELECT coalesce(max(version), 0) FROM schema_migrations;
