-- Forgets some alerts that have been over since before an instant.
-- Index: alerts_over. Lock: the rows.
DELETE FROM alerts WHERE id = ANY (ARRAY(SELECT id FROM alerts WHERE stage = 'ok' AND since < $1 ORDER BY since LIMIT $2)) AND stage = 'ok';
