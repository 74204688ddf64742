-- Makes new versions of the configurations of several applications, because of endpoints that are written next.
-- Index: the primary key. Lock: the rows, taken in order by the caller before.
UPDATE application_counters SET config_version = config_version + 1 WHERE application_id = ANY($1);
