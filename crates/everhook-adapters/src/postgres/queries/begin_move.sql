-- Begins the move of a data folder.
-- Index: the primary key. Lock: the row.
INSERT INTO moves (singleton, source, fingerprint, begun_at) VALUES (true, $1, $2, $3);
