-- How many bytes does the database take?
-- Index: none, the server's own files. Lock: none.
SELECT pg_database_size(current_database()) AS bytes;
