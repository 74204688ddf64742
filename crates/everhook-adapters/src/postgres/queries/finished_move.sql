-- Was a data folder moved into this database?
-- Index: the primary key. Lock: none.
SELECT EXISTS (SELECT FROM moves WHERE finished_at IS NOT NULL) AS is_there;
