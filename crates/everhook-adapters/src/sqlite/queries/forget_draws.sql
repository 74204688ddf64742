-- Removes some draws that are old.
-- Index: draws_by_age. Lock: the write lock.
DELETE FROM draws WHERE request_id IN (SELECT request_id FROM draws WHERE drawn_at < ?1 ORDER BY drawn_at LIMIT ?2);
