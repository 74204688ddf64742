-- Which database is this spool of, if any?
-- Index: none, one row. Lock: the write lock, which the one connection holds anyway.
SELECT installation FROM binding;
