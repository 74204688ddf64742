-- Makes a new version of an organization's configuration, and with it of those of all its applications.
-- Index: the primary key. Lock: the row, taken by the caller before.
UPDATE organizations SET config_version = config_version + 1 WHERE id = $1;
