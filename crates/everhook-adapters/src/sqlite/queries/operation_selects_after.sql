-- Does an operation still select, from behind this id on?
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT 1 FROM operations WHERE id = ?1 AND phase = 'selecting' AND selected_until = ?2;
