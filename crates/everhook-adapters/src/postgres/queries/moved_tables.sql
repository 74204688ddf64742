-- How far is the move of each table?
-- Index: none, a row for each table. Lock: none.
SELECT name, rows, sum, last_key FROM moved_tables;
