-- Does an operation still select, from behind this id on? It stays so until the commit.
-- Index: the primary key. Lock: the row, until the commit.
SELECT 1 FROM operations WHERE id = $1 AND phase = 'selecting' AND selected_until = $2 FOR NO KEY UPDATE;
