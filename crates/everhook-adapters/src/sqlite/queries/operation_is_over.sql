-- Notes that nothing is left of an operation that has ended.
-- Index: the primary key; leaves operations_with_work. Lock: the write lock.
UPDATE operations SET phase = 'over' WHERE id = ?1 AND phase = 'clearing';
