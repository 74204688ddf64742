-- Was nothing ever made in this file?
-- Index: none, the schema's first row. Lock: none.
SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema) AS is_empty;
