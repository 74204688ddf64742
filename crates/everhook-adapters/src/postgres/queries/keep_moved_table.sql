-- Notes how far the move of a table is, in the transaction of its rows.
-- Index: the primary key. Lock: the row.
INSERT INTO moved_tables (name, rows, sum, last_key) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET rows = EXCLUDED.rows, sum = EXCLUDED.sum, last_key = EXCLUDED.last_key;
