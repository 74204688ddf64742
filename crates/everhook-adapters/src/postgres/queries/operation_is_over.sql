-- Notes that nothing is left of an operation that has ended.
-- Index: the primary key; leaves operations_with_work. Lock: the row, until the commit.
UPDATE operations SET phase = 'over' WHERE id = $1 AND phase = 'clearing';
