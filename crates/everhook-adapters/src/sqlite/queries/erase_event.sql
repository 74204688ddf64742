-- Notes that an event has no data any more.
-- Index: the primary key. Lock: the write lock.
UPDATE events SET erased_at = ?2 WHERE id = ?1;
