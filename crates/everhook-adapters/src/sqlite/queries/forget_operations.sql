-- Removes some operations that ended before an instant. Their items went when they ended.
-- Index: the primary key. Lock: the write lock.
DELETE FROM operations WHERE id > ?1 AND id <= ?2 AND phase = 'over' AND finished_at < ?3;
