-- Which data folder is only half in this database, if any?
-- Index: the primary key. Lock: none.
SELECT source FROM moves WHERE finished_at IS NULL;
