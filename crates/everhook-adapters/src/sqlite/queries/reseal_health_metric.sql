-- Replaces what a metric was made of by the same, sealed otherwise, unless somebody changed it.
-- Index: the primary key. Lock: the write lock.
UPDATE health_metrics SET raw = ?2 WHERE id = ?1 AND raw = ?3;
