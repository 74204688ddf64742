-- An endpoint has sent what gathered during its pause.
-- Index: the primary key. Lock: the row; its application's counters are taken by the caller before.
UPDATE endpoints SET drain_per_second = NULL WHERE id = $1 AND drain_per_second IS NOT NULL;
