-- Where do the configurations and sequences of applications stand?
-- Index: the primary key. Lock: the rows, in the order of their ids, until the commit.
SELECT application_id, config_version, next_sequence
FROM application_counters
WHERE application_id = ANY($1)
ORDER BY application_id
FOR UPDATE;
