-- How many pages does a partition have?
-- Index: the server's own. Lock: none.
SELECT pg_relation_size(to_regclass($1)) / current_setting('block_size')::bigint AS pages;
