-- Makes a new version of an application's configuration.
-- Index: the primary key. Lock: the row, until the commit.
UPDATE application_counters SET config_version = config_version + 1 WHERE application_id = $1;
