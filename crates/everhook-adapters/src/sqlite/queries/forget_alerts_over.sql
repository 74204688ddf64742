-- Forgets some alerts that have been over since before an instant.
-- Index: alerts_over. Lock: the write lock.
DELETE FROM alerts WHERE id IN (SELECT id FROM alerts INDEXED BY alerts_over WHERE stage = 'ok' AND since < ?1 ORDER BY since LIMIT ?2);
